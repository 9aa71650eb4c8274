"""A network of real size: MobileNetV2 at 224x224, 3.5 million parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import Dma, Op
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module, load_model
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.models.mobilenetv2 import MobileNetV2


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mobilenet_v2_is_verified() -> None:
    assert sum(parameter.numel() for parameter in MobileNetV2().parameters()) == 3_504_872
    report = run(Question("ethos_hil.suites.models:mobilenet_v2", strict=True))
    assert report.record.verdict == "verified", report.record.failure
    assert len(report.artifact.delegates) == 1
    assert not [op for op in report.record.ops if op.id == "unmapped"]
    # The only module without a line of its own is the model itself, which calls mean().
    assert {op.module for op in report.record.ops if "." not in op.module} <= {"", "classifier"}
    assert all(op.source for op in report.record.ops)


def test_maps_larger_than_the_npus_own_memory_are_verified_on_a_corstone_320() -> None:
    """Return its first layers for an image of 160x160; the whole network is lowered above."""
    torch.manual_seed(0)
    block = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU6(), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.ReLU6(),
        nn.Conv2d(32, 16, 1), nn.Conv2d(16, 96, 1), nn.ReLU6(),
    )  # fmt: skip
    image = torch.rand(1, 3, 160, 160)
    npu = EthosU.parse("ethos-u85-256")
    artifact = lower(
        from_module(block, (image,), label="block"), npu, memory_mode=MemoryMode.parse("Dedicated_Sram_384KB")
    )
    board = VirtualTarget(str(npu))
    report = run_artifact(artifact, board, Question("block"))
    assert report.record.verdict == "verified", report.record.failure
    (call,) = report.outcome.runs[0].delegates
    assert sum(op.cycles or 0 for op in report.record.ops) == call.cycles
    assert 96 * 80 * 80 > 384 << 10 >= report.outcome.memory["fast_scratch_bytes"] > 0


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_wrong_channel_anywhere_reaches_the_output() -> None:
    """Sabotage: if the network ignored its middle layers, "verified" would mean little."""
    artifact = lower(load_model("ethos_hil.suites.models:mobilenet_v2"), EthosU.parse("ethos-u55-128"))
    reference = Reference(artifact).run(artifact.example_inputs)
    blob, inputs = (
        artifact.delegates[0].blob,
        [value.tobytes() for value in next(iter(reference.delegate_inputs.values()))],
    )
    npu = Npu(EthosU.parse("ethos-u55-128"))
    right = run_delegate(npu, blob, inputs).outputs
    kernels = [op for op in npu.decode(blob.command_stream).ops if not isinstance(op, Dma)]
    for victim in kernels[:: len(kernels) // 12]:

        def invert(op: Op, memory: RegionMemory, victim: Op = victim) -> None:
            if op is victim and not isinstance(op, Dma):
                stored = op.ofm.load(memory).copy()
                stored[:, :, 0] = ~stored[:, :, 0]
                op.ofm.store(memory, stored)

        assert run_delegate(npu, blob, inputs, invert).outputs != right, victim
