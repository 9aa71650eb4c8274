"""Both systems on chip with every kind of NPU, from a PyTorch model to a verified answer.

The network is small, but has weights, a look-up table, a pool, an element-wise operation and two outputs.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ethos_hil.base.errors import TargetError, TargetNotAvailable
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.npu.compute.convolution import ConvolutionStep
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.socs.registry import virtual_soc
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.harness.virtual.fittings import Adapters, Fittings
from ethos_hil.harness.virtual.peripherals import TimingAdapters
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import keeping
from ethos_hil.lowering.vela.memory_mode import MemoryMode

SYSTEMS = [
    ("ethos-u55-32", "Shared_Sram"),
    ("ethos-u55-256", "Sram_Only"),
    ("ethos-u65-256", "Dedicated_Sram_384KB"),
    ("ethos-u65-512", "Shared_Sram"),
    ("ethos-u65-512", "Sram_Only"),
    ("ethos-u85-128", "Sram_Only"),
    ("ethos-u85-256", "Dedicated_Sram_384KB"),
    ("ethos-u85-2048", "Shared_Sram"),
]


def one_in_three(systems: Sequence[tuple[str, str]]) -> list[Any]:
    """Systems of each family; the others are proofs."""
    return [pytest.param(*system, marks=[pytest.mark.proof] if at % 3 else []) for at, system in enumerate(systems)]


def two_convolutions(net: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute two convolutions around a pool, and their sum and product with a second input."""
    last = net.last(torch.nn.functional.max_pool2d(torch.sigmoid(net.first(x)), 3, 2, 1))
    return last + y, last * y


@functools.cache
def lowered(npu: str, mode: str) -> Artifact:
    torch.manual_seed(3)
    net = keeping(two_convolutions, first=nn.Conv2d(3, 16, 3, stride=2, padding=1), last=nn.Conv2d(16, 24, 1))
    example = (torch.randn(1, 3, 16, 16), torch.randn(1, 24, 4, 4))
    return lower(from_module(net.eval(), example, [example]), EthosU.parse(npu), memory_mode=MemoryMode.parse(mode))


class Counting(VirtualTarget):
    """A target that keeps how many register accesses the last run took."""

    accesses = 0

    def reset(self) -> None:
        if self._machine is not None:
            self.accesses = self._machine.accesses
        super().reset()


def execute(artifact: Artifact, board: VirtualTarget, *, repeat: int = 1) -> Report:
    return run_artifact(artifact, board, Question("net", repeat=repeat))


@pytest.mark.slow
@pytest.mark.parametrize(("npu", "mode"), one_in_three(SYSTEMS))
def test_every_system_is_verified(npu: str, mode: str) -> None:
    board = VirtualTarget(npu, strict=True)
    report = execute(lowered(npu, mode), board)
    assert report.record.verdict == "verified", report.record.failure
    assert board.soc == ("corstone-320" if "u85" in npu else "corstone-300")
    (call,) = report.outcome.runs[0].delegates
    assert sum(op.cycles or 0 for op in report.record.ops) == call.cycles > 0
    # Where the data was: behind which port, and in which memory.
    idle, read_0, write_0, read_1 = call.events[:4]  # the default plan's events
    assert (idle, bool(read_0), bool(write_0), bool(read_1)) == (0, True, True, mode != "Sram_Only")
    dedicated = mode.startswith("Dedicated")
    assert [report.outcome.memory[name] > 0 for name in ("fast_scratch_bytes", "ddr_used")] == [dedicated, dedicated]


# Register accesses that stop the guest, as docs/targets.md has them: to start with, and for each job.
ACCESSES = {"ethos-u55-256": (24, 25), "ethos-u85-256": (33, 29)}


@pytest.mark.slow
@pytest.mark.parametrize("npu", ACCESSES)
def test_register_accesses_per_job(npu: str) -> None:
    artifact = lowered(npu, "Sram_Only")
    counts = []
    for repeat in (1, 3):
        board = Counting(npu)
        execute(artifact, board, repeat=repeat)
        counts.append(board.accesses)
    job = (counts[1] - counts[0]) // 2
    assert (counts[0] - job, job) == ACCESSES[npu]


def packed(artifact: Artifact, soc: str, **plan: Any) -> Image:
    """Return an image without the host's own checks, so that the device's checks are tested."""
    tensors = artifact.plan.input_tensors
    inputs = [[tensor.to_bytes(value) for tensor, value in zip(tensors, artifact.example_inputs, strict=True)]]
    return pack(find_firmware(soc), artifact.pte, inputs, RunPlan(1, len(tensors), **plan))


def run_image(image: Image, npu: str) -> Outcome:
    board = VirtualTarget(npu)
    board.load(image)
    return board.run(timeout=60)


@pytest.mark.slow
def test_an_ethos_u85_counts_eight_events_at_once() -> None:
    numbers = (17, 35, 130, 135, 386, 391, 48, 64)
    image = packed(lowered("ethos-u85-256", "Sram_Only"), "corstone-320", event_sets=(numbers,))
    (call,) = run_image(image, "ethos-u85-256").runs[0].delegates
    counted = dict(zip(numbers, call.events, strict=True))
    # Cycles and active cycles are all of them; in this mode all traffic of the shared SRAM's plan goes where it says.
    assert counted[17] == counted[35] == call.cycles
    assert all(counted[event] for event in (130, 135, 386, 48, 64))
    assert counted[391] == 0


@pytest.mark.slow
def test_an_image_for_the_other_board_is_refused() -> None:
    """A Corstone-300's image starts where a Corstone-320 has no vector table."""
    with pytest.raises(TargetNotAvailable, match="no vector table at 0x11000000, where a corstone-320 starts"):
        run_image(packed(lowered("ethos-u85-256", "Sram_Only"), "corstone-300"), "ethos-u85-256")


@pytest.mark.slow
@pytest.mark.parametrize(("npu", "board"), [("ethos-u55-256", "ethos-u65-256"), ("ethos-u85-256", "ethos-u85-128")])
def test_a_program_for_another_npu_is_refused_by_the_device(npu: str, board: str) -> None:
    with pytest.raises(TargetError, match=f"(?=.*{npu}).*{board}") as caught:
        run_image(packed(lowered(npu, "Sram_Only"), VirtualTarget(board).soc), board)
    assert caught.value.kind == "npu-mismatch"


_FILE = tomllib.loads((DATA / "timing_adapters.toml").read_text())
ADAPTERS = {(npu, mode): ports.values() for npu, modes in _FILE.items() for mode, ports in modes.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("npu", "mode"), one_in_three([*ADAPTERS]))
def test_timing_adapters_are_set_where_there_are_any(npu: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    adapters = TimingAdapters()
    monkeypatch.setattr("ethos_hil.harness.virtual.machine.TimingAdapters", lambda: adapters)
    soc = virtual_soc(npu)
    board = VirtualTarget(npu, fittings=Fittings(soc.uarts, Adapters.PRESENT))
    assert execute(lowered(npu, mode), board).record.verdict == "verified"
    distance = 0x800 if "u85" in npu else 0x200
    for port, expected in enumerate(ADAPTERS[npu, mode]):
        assert [adapters.stored[port * distance + 4 * at] for at in range(11)] == expected


@pytest.mark.slow
@pytest.mark.parametrize(("npu", "mode"), [SYSTEMS[3], SYSTEMS[6]])
def test_the_first_wrong_operation_is_named(npu: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One element of one convolution is broken in the NPU."""
    artifact = lowered(npu, mode)
    right = ConvolutionStep.run
    victim = next(op for op in artifact.npu_ops if op.module == "last" and "Conv2D" in op.npu_op)

    def wrong(self: ConvolutionStep, memory: RegionMemory) -> None:
        right(self, memory)
        if self.op.offset == victim.end_offset:
            values = np.array(self.op.ofm.load(memory))
            values[0, 0, 5] ^= 0x40
            self.op.ofm.store(memory, values)

    monkeypatch.setattr(ConvolutionStep, "run", wrong)
    record = execute(artifact, VirtualTarget(npu)).record
    assert (record.verdict, record.failure.kind if record.failure else "") == ("failed", "mismatch")
    assert record.divergence is not None
    assert (record.divergence.place, record.divergence.op, record.divergence.module) == ("npu-op", victim.id, "last")
