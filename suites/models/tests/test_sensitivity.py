"""Sabotage: one wrong channel of any NPU operation that computes reaches the answer.

Were a model deaf to some of its layers, "verified" would say little of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from ethos_hil.harness.npu import Configuration, Npu
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import Dma, Op, Pool
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.lowering.oracle.reference import Reference

NPU = NpuName.parse("ethos-u55-128")
VICTIMS = 25
"""Of each model at most, evenly spread over its operations."""
DAMAGES: tuple[Callable[[np.ndarray], np.ndarray], ...] = (lambda x: ~x, lambda x: x ^ np.iinfo(x.dtype).max // 3)
"""All bits, and every other: a square hides a sign, and what is 0 stays near it."""
CHANNELS = 4
"""The first so many are damaged, each by itself. One has to be noticed: what an LSTM's gate lets through may be 0."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["ds_cnn", "mobilenet_v1", "resnet8", "autoencoder", "transformer_encoder", "lstm"])
def test_one_wrong_channel_anywhere_reaches_the_answer(name: str) -> None:
    artifact = lower(f"ethos_hil.suites.models:{name}", NPU)
    inputs = Reference(artifact).run(artifact.example_inputs).delegate_inputs
    functional = Npu(Configuration.parse(NPU.name))
    for delegate in artifact.delegates:
        given = [value.tobytes() for value in inputs[delegate.instruction]]
        right = run_delegate(functional, delegate.blob, given).outputs
        ops = functional.decode(delegate.blob.command_stream).ops
        kernels = [op for op in ops if not isinstance(op, Dma) and not moves(op)]
        for victim in kernels[:: -(-len(kernels) // VICTIMS)]:
            damaged = (
                run_delegate(functional, delegate.blob, given, damaging(victim, channel, damage)).outputs
                for channel, damage in product(range(min(CHANNELS, victim.ofm.depth)), DAMAGES)
            )
            assert any(outputs != right for outputs in damaged), victim


def moves(op: Op) -> bool:
    """Whether it copies or transposes. Rows that it moves may not be read: a shortcut of stride 2 takes every other."""
    return isinstance(op, Pool) and (op.kernel.height, op.kernel.width) == (1, 1)


def damaging(
    victim: Op, channel: int, damage: Callable[[np.ndarray], np.ndarray]
) -> Callable[[Op, RegionMemory], None]:
    """What does it to a channel of what the victim stores, when told that an operation has been executed."""

    def after(op: Op, memory: RegionMemory) -> None:
        if op is victim and not isinstance(op, Dma):
            stored = op.ofm.load(memory).copy()
            stored[:, :, channel] = damage(stored[:, :, channel])
            op.ofm.store(memory, stored)

    return after
