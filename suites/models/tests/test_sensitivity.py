"""Sabotage: one wrong channel of any NPU operation that computes reaches the answer.

If a model ignored some of its layers, "verified" would mean little for them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import Dma, Op, Pool
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.oracle.reference import Reference

NPU = EthosU.parse("ethos-u55-128")
VICTIMS = 25
"""The largest number of operations of each model, evenly spread."""
DAMAGES: tuple[Callable[[np.ndarray], np.ndarray], ...] = (lambda x: ~x, lambda x: x ^ np.iinfo(x.dtype).max // 3)
"""The bits to flip: all, and every other one. A square hides a sign, and a value near 0 stays near it."""
CHANNELS = 4
"""The number of elements damaged, each alone. One must change the answer: an LSTM's gate may let through 0 of the
others.
"""


LARGE = ("mobilenet_v1", "mobilenet_v2", "resnet8", "transformer_encoder", "lstm")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", ["ds_cnn", *(pytest.param(name, marks=pytest.mark.proof) for name in ("autoencoder", *LARGE))]
)
def test_one_wrong_channel_anywhere_reaches_the_answer(name: str) -> None:
    artifact = lower(f"ethos_hil.suites.models:{name}", NPU)
    inputs = Reference(artifact).run(artifact.example_inputs).delegate_inputs
    functional = Npu(EthosU.parse(NPU.name))
    for delegate in artifact.delegates:
        data = [value.tobytes() for value in inputs[delegate.instruction]]
        right = run_delegate(functional, delegate.blob, data).outputs
        ops = functional.decode(delegate.blob.command_stream).ops
        kernels = [op for op in ops if not isinstance(op, Dma) and not moves(op)]
        for victim in kernels[:: -(-len(kernels) // VICTIMS)]:
            damaged = (
                run_delegate(functional, delegate.blob, data, damaging(victim, channel, damage)).outputs
                for channel, damage in product(range(min(CHANNELS, victim.ofm.depth)), DAMAGES)
            )
            assert any(outputs != right for outputs in damaged), victim


def moves(op: Op) -> bool:
    """Return whether it copies or transposes. The rows that it moves may be unused: a shortcut of stride 2 reads
    every other row.
    """
    return isinstance(op, Pool) and (op.kernel.height, op.kernel.width) == (1, 1)


def damaging(
    victim: Op, channel: int, damage: Callable[[np.ndarray], np.ndarray]
) -> Callable[[Op, RegionMemory], None]:
    """Damages a channel of the victim's result, when an operation is reported as executed."""

    def after(op: Op, memory: RegionMemory) -> None:
        if op is victim and not isinstance(op, Dma):
            stored = op.ofm.load(memory).copy()
            stored[:, :, channel] = damage(stored[:, :, channel])
            op.ofm.store(memory, stored)

    return after
