"""Sabotage: one wrong channel of any NPU operation reaches the answer.

Were a model deaf to some of its layers, "verified" would say little of them.
"""

from __future__ import annotations

import pytest

from harness.delegate import run_delegate
from harness.npu import Configuration
from harness.npu import Npu as FunctionalNpu
from harness.npu.featuremap import Memory
from harness.npu.operations import Dma, Op
from lowering.lower import lower
from lowering.profile import Npu
from lowering.reference import Reference

NPU = Npu.parse("ethos-u55-128")
VICTIMS = 25
"""Of each model at most, evenly spread over its operations."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["ds_cnn", "mobilenet_v1", "resnet8", "autoencoder", "transformer_encoder", "lstm"])
def test_one_wrong_channel_anywhere_reaches_the_answer(name: str) -> None:
    artifact = lower(f"suites.models:{name}", NPU)
    inputs = Reference(artifact).run(artifact.example_inputs).delegate_inputs
    functional = FunctionalNpu(Configuration.parse(NPU.name))
    for delegate in artifact.delegates:
        given = [value.tobytes() for value in inputs[delegate.instruction]]
        right = run_delegate(functional, delegate.blob, given).outputs
        kernels = [op for op in functional.decode(delegate.blob.command_stream).ops if not isinstance(op, Dma)]
        for victim in kernels[:: -(-len(kernels) // VICTIMS)]:

            def invert(op: Op, memory: Memory, victim: Op = victim) -> None:
                if op is victim and not isinstance(op, Dma):
                    stored = op.ofm.load(memory).copy()
                    stored[:, :, 0] = ~stored[:, :, 0]
                    op.ofm.store(memory, stored)

            assert run_delegate(functional, delegate.blob, given, invert).outputs != right, victim
