"""How the work of a program is divided between NPU and CPU."""

from __future__ import annotations

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.program_info import OPERATORS, NpuShare
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.formats.pte_model import KernelCall
from ethos_hil.lowering.program.multiplications import products_of_call


def npu_share(artifact: Artifact) -> NpuShare | None:
    """Return the NPU's share of a method's work; None where it is not known.

    Args:
        artifact: the program. Where it was not lowered here, the products are those of its command streams, in which
            Vela may have made a convolution of something else, such as a mean.
    """
    cpu = sum(
        products_of_call(artifact.plan, call) for call in artifact.plan.instructions if isinstance(call, KernelCall)
    )
    counts = [_products(delegate, artifact.npu) for delegate in artifact.delegates]
    npu = sum(count for count in counts if count is not None)
    if None in counts:
        return None
    if npu + cpu:
        return NpuShare(npu, cpu)
    placed = artifact.placement
    known = placed.delegated or not artifact.delegates
    return NpuShare(placed.delegated, len(placed.on_cpu), OPERATORS) if known else None


def _products(delegate: Delegate, npu: EthosU | None) -> int | None:
    if delegate.products is not None:
        return delegate.products
    try:
        return None if npu is None else Npu(npu).decode(delegate.blob.command_stream).products
    except Fault:  # the device says more about it
        return None
