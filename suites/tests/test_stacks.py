"""Ordinary networks, verified bit for bit: end to end on the virtual Corstone-300, and on every size of NPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tosa_reference_model
from torch import nn

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.repairs.mend import treat
from ethos_hil.lowering.vela.compiler import flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.models.tests.stacks import STACKS, example

SIZES = (32, 64, 128, 256)
NAMES = ["residual", *(pytest.param(name, marks=pytest.mark.proof) for name in ("two_outputs", "plain"))]


def npu_for(name: str) -> EthosU:
    return EthosU.parse(f"ethos-u55-{SIZES[list(STACKS).index(name) % len(SIZES)]}")


@pytest.mark.parametrize("name", NAMES)
def test_stack_is_verified(name: str) -> None:
    """Run each network on one of the four sizes; the programs for all others are compared below, without a board."""
    report = run(Question(from_module(*example(name, 0), label=name), npu=str(npu_for(name)), strict=True))
    assert report.record.verdict == "verified", report.record.failure
    assert report.record.ops
    assert sum(op.cycles or 0 for op in report.record.ops) == report.record.metric("npu_cycles").value  # type: ignore[union-attr]


@pytest.mark.parametrize("name", NAMES)
def test_every_npu_computes_what_the_reference_model_does(name: str) -> None:
    """Compile the same TOSA program for all configurations, and run it on random int8 inputs of the full range."""
    artifact = lower(from_module(*example(name, 0), label=name), npu_for(name), etrecord=True)  # as it is run
    random = np.random.default_rng(0)
    for delegate in artifact.delegates:
        assert delegate.tosa is not None
        inputs = [
            random.integers(-128, 128, place.shape, np.int8).reshape(tensor.shape)
            for place, tensor in zip(delegate.blob.inputs, TosaGraph.parse(delegate.tosa).inputs, strict=True)
        ]
        expected, status = tosa_reference_model.run(delegate.tosa, inputs)
        assert status == tosa_reference_model.GraphStatus.TOSA_VALID
        for configuration in EthosU.all():
            npu = EthosU.parse(configuration.name)
            chosen = flags(npu, MemoryMode.default(npu))
            compiled = run_vela(delegate.tosa, chosen)
            rewritten, _ = treat(compiled, npu.family)
            blob = (compiled if rewritten == delegate.tosa else run_vela(rewritten, chosen)).parsed
            result = run_delegate(Npu(configuration, strict=True), blob, [value.tobytes() for value in inputs])
            for output, value in zip(result.outputs, expected, strict=True):
                assert output == np.asarray(value).tobytes(), configuration.name


def test_maps_larger_than_the_npus_own_memory_are_verified_on_a_corstone_320() -> None:
    """The first layers of a MobileNetV2 for an image of 132x132."""
    torch.manual_seed(0)
    block = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU6(), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.ReLU6(),
        nn.Conv2d(32, 16, 1), nn.Conv2d(16, 96, 1), nn.ReLU6(),
    )  # fmt: skip
    image = torch.rand(1, 3, 132, 132)
    npu = EthosU.parse("ethos-u85-256")
    mode = MemoryMode.parse("Dedicated_Sram_384KB")
    artifact = lower(from_module(block, (image,), label="block"), npu, memory_mode=mode)
    board = VirtualTarget(str(npu))
    report = run_artifact(artifact, board, Question("block"))
    assert report.record.verdict == "verified", report.record.failure
    (call,) = report.outcome.runs[0].delegates
    assert sum(op.cycles or 0 for op in report.record.ops) == call.cycles
    assert 96 * 66 * 66 > 384 << 10 >= report.outcome.memory["fast_scratch_bytes"] > 0
