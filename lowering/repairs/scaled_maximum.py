"""A maximum that is rescaled.

For Ethos-U55 and U65 Vela has the operation of a maximum do the RESCALE behind it. Whether their maximum has a scale is
not established: no document of these NPUs says so, Vela's own Python generator writes none for it, and what the
registers hold is then another operation's. The NPU model refuses to run it. An int8 input that becomes float32 in front
of a maximum or a softmax meets it, as ExecuTorch takes the maximum before it scales.

## Repair

A CLAMP to all values of the type takes the maximum, and is rescaled in its place.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import WITHOUT_U85, VelaDefect
from ethos_hil.lowering.repairs.input_weights import MOVED
from ethos_hil.lowering.repairs.rewrites import CLAMPED, clamp_before

_MAXIMA = ("REDUCE_MAX", "MAX_POOL2D")


def keep_maxima(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Put a CLAMP to all values between each maximum and the RESCALE behind it."""
    repaired = [
        operator for operator in block.operators if operator.op == "RESCALE" and _is_of_maximum(block, operator)
    ]
    for operator in repaired:
        clamp_before(block, operator)
    return repaired


def _is_of_maximum(block: DraftBlock, rescale: DraftOperator) -> bool:
    types = {block.tensors[name].dtype for name in (rescale.inputs[0], rescale.outputs[0])}
    writer = block.producer_behind(rescale.inputs[0], MOVED)
    return writer is not None and writer.op in _MAXIMA and types <= CLAMPED.keys()


DEFECT = VelaDefect(
    id="vela-scaled-maximum",
    effect="has the operation of a maximum scale its result, which it is not known to do",
    remedy="lower without --as-upstream",
    families=WITHOUT_U85,
    repair=keep_maxima,
)
