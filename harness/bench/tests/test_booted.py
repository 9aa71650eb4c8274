"""Points of a benchmark: booted ones are verified, and timed ones have the numbers of a profile. A program that is
compiled again is what lowering for that NPU makes: streams, weights, rows, summaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ethos_hil.base.inference_profile import OpCost
from ethos_hil.base.judge import is_refusal
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import CompileOptions
from ethos_hil.base.question import Question
from ethos_hil.base.record import BenchInfo, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.bench.bench import is_settled
from ethos_hil.harness.bench.case_work import CaseWork, RecompilationDeparts, case_model, recompile_for
from ethos_hil.harness.bench.points import SHORT, BenchCase, BenchInput, BenchPoint, BenchStep, PointSettings
from ethos_hil.harness.image.firmware_manifest import FIRMWARE_VARIABLE
from ethos_hil.harness.run import run
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.testing.function_module import keeping
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.latency import NPU_SECONDS

CASE = BenchCase(
    "conv_8x8x8", "conv", (BenchStep("Conv2d", args=(8, 8, 3)), BenchStep("ReLU")), (BenchInput((1, 8, 8, 8)),),
    tags=(SHORT, "mine"), source="grid.toml:3",
)  # fmt: skip
SETTINGS = PointSettings("test")


@pytest.fixture(scope="module")
def pool() -> Iterator[BoardPool]:
    with BoardPool() as boards:
        yield boards


def measure(
    pool: BoardPool, settings: PointSettings = SETTINGS, case: BenchCase = CASE, npu: str = "ethos-u55-128",
    mode: str = "Shared_Sram", target: str = "virtual",
) -> Record:  # fmt: skip
    (record,) = CaseWork(case, settings, pool).records([replace(point(case, npu, mode), target=target)])
    return record


def value(record: Record, name: str, provenance: str = "") -> float:
    metric = record.metric(name)
    assert metric is not None
    assert provenance in ("", metric.provenance)
    return metric.value


def test_a_short_case_is_verified_and_agrees_with_its_timing(pool: BoardPool) -> None:
    booted, timed = measure(pool), measure(pool, replace(SETTINGS, boot=False))
    assert (booted.verdict, timed.verdict) == (Verdict.VERIFIED, Verdict.COMPILED_ONLY)
    assert booted.metric("npu_cycles") == timed.metric("npu_cycles")
    assert [(op.id, op.cycles) for op in booted.ops] == [(op.id, op.cycles) for op in timed.ops]
    assert booted.bench == timed.bench == BenchInfo("test", "conv_8x8x8", "conv", (SHORT, "mine"), "grid.toml:3")
    assert booted.metric("weights_encoded_bytes") == timed.metric("weights_encoded_bytes")
    assert (booted.executions, timed.executions) == (1, 0)


def test_times_are_at_the_clock_that_is_stated_and_need_no_firmware(
    pool: BoardPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing boots, so a board whose firmware is not here has the numbers that it has with it, and a note."""
    settings = replace(SETTINGS, clock="100MHz", boot=False)
    right = measure(pool, settings, mode="Sram_Only")
    monkeypatch.setenv(FIRMWARE_VARIABLE, str(tmp_path))
    record = measure(pool, settings, mode="Sram_Only")
    assert (record.metrics, record.ops) == (right.metrics, right.ops)
    (note,) = {*record.notes} - {*right.notes}
    assert note.startswith("there is no firmware of corstone-300 here")
    assert value(record, NPU_SECONDS) == pytest.approx(value(record, "npu_cycles") / 100e6)


UPSAMPLE, NO_LAYER = BenchStep("Upsample", options={"scale_factor": 2, "mode": "bilinear"}), BenchStep("NoLayer")
REFUSALS = {
    "mode": (CASE, "ethos-u55-128", "Dedicated_Sram", "virtual"),
    "target": (CASE, "ethos-u85-256", "Sram_Only", "corstone-300"),
    "not-on-the-npu": (replace(CASE, steps=(UPSAMPLE,)), "ethos-u55-128", "Shared_Sram", "virtual"),
    "no-layer": (replace(CASE, steps=(NO_LAYER,)), "ethos-u55-128", "Shared_Sram", "virtual"),
}


def test_refusals_are_records_with_a_reason(pool: BoardPool, recorded: Recorded) -> None:
    failures = {}
    for what, (case, *place) in REFUSALS.items():
        record = measure(pool, SETTINGS, case, *place)
        assert is_refusal(record)
        assert record.bench is not None
        assert [record.npu, record.memory_mode, record.target.name] == place
        failures[what] = record.failure
    recorded.check(failures)


def test_a_file_that_is_gone_is_no_property_of_the_point(pool: BoardPool) -> None:
    """Such as a board whose file was removed since the run began: an NPU that lacks something is not red in a night."""
    board = measure(pool, target="board:/nowhere/mine.toml")
    for record in (board, measure(pool, replace(SETTINGS, vela_ini=Path("/nowhere/vela.ini")))):
        assert (record.verdict, record.kind) == (Verdict.FAILED, FailureKind.NOT_AVAILABLE)
        assert not is_settled(record)


DOWN = BenchStep("Conv2d", args=(16, 24, 3), options={"stride": 2, "padding": 1})
CONV = BenchCase("conv_16x16x16", "conv", (DOWN, BenchStep("Hardswish")), (BenchInput((1, 16, 16, 16)),))
NORM = BenchCase("norm_8x64", "norm", (BenchStep("LayerNorm", args=(64,)),), (BenchInput((1, 8, 64)),))
LINEAR = BenchCase("linear_640", "linear", (BenchStep("Linear", args=(640, 128)),), (BenchInput((1, 640)),))
WIDE = replace(CONV, name="conv_wide", scheme="a16w8")
POINTS = (
    (CONV, "ethos-u55-128", "Shared_Sram"),
    (CONV, "ethos-u65-256", "Dedicated_Sram_384KB"),
    (CONV, "ethos-u85-512", "Dedicated_Sram_384KB"),
    (WIDE, "ethos-u55-32", "Sram_Only"),
    (LINEAR, "ethos-u55-256", "Shared_Sram"),
    *(pytest.param(*point, marks=pytest.mark.proof) for point in (
        (NORM, "ethos-u65-512", "Sram_Only"), (NORM, "ethos-u85-256", "Shared_Sram"),
        (LINEAR, "ethos-u85-2048", "Sram_Only"),
    )),
)  # fmt: skip


def point(case: BenchCase, npu: str, mode: str, system: str = "") -> BenchPoint:
    return BenchPoint(case, npu, mode, system or EthosU.parse(npu).family.system.name, "virtual")


def timed(wanted: BenchPoint, pool: BoardPool) -> Record:
    """Return the record of a point that is compiled from the TOSA of another NPU of its kind."""
    other = "ethos-u85-128" if "u85" in wanted.npu else "ethos-u55-64"
    if "u55-32" in wanted.npu:
        other = "ethos-u55-256"
    before = point(wanted.case, other, "Shared_Sram")
    work = CaseWork(wanted.case, SETTINGS, pool)
    return list(work.records([before, wanted]))[1]


def profiled(wanted: BenchPoint, pool: BoardPool) -> Record:
    """Return the record of `ethos-hil profile` for the same question."""
    question = Question(
        case_model(wanted.case), npu=wanted.npu, target="virtual", memory_mode=wanted.memory_mode,
        system_config=wanted.system_config, scheme=wanted.case.scheme, profile=True,
    )  # fmt: skip
    return run(question, pool=pool).record


def rows(record: Record) -> list[tuple[object, ...]]:
    return [(op.id, op.npu_op, op.tosa_op, op.aten_ops, op.source, op.cycles, op.provenance) for op in record.ops]


def costs(record: Record) -> dict[str, OpCost]:
    assert record.profile is not None
    return dict(record.profile.costs)


@pytest.mark.parametrize(("case", "npu", "mode"), POINTS, ids=lambda value: getattr(value, "name", value))
def test_agrees_with_profile(case: BenchCase, npu: str, mode: str, pool: BoardPool) -> None:
    record, right = timed(point(case, npu, mode), pool), profiled(point(case, npu, mode), pool)
    assert right.verdict == Verdict.VERIFIED
    assert record.verdict == Verdict.COMPILED_ONLY
    assert record.metric("npu_cycles") == right.metric("npu_cycles")
    assert record.metric("npu_cycles_estimate") == right.metric("npu_cycles_estimate")
    assert rows(record) == rows(right)
    assert sum(op.cycles or 0 for op in record.ops) == value(right, "npu_cycles")
    assert costs(record) == costs(right)
    for name in ("npu", "memory_mode", "system_config", "clock_hz", "timing_model", "versions", "target", "method"):
        assert getattr(record, name) == getattr(right, name), name
    assert record.artifact is not None
    assert right.artifact is not None
    for name in ("delegates", "question", "vela_flags", "cpu_calls", "scheme", "lowering", "npu_ops"):
        assert getattr(record.artifact, name) == getattr(right.artifact, name), name


def test_the_comparison_sees_another_memory_system(pool: BoardPool) -> None:
    """A guard of the guard: with another system, neither the total nor the rows are the profile's."""
    wanted = point(LINEAR, "ethos-u55-256", "Shared_Sram")
    other = point(LINEAR, "ethos-u55-256", "Shared_Sram", "Ethos_U55_Deep_Embedded")
    right = profiled(wanted, pool)
    record = timed(other, pool)
    assert record.metric("npu_cycles") != right.metric("npu_cycles")
    assert rows(record) != rows(right)
    assert costs(record) != costs(right)


def test_what_a_device_would_report_of_its_memory(pool: BoardPool) -> None:
    wanted = point(CONV, "ethos-u85-512", "Dedicated_Sram_384KB")
    record, right = timed(wanted, pool), profiled(wanted, pool)
    for name in ("scratch_bytes", "fast_scratch_bytes"):
        vela, device = value(record, name, "vela"), value(right, name)
        assert vela <= device <= vela + 31, name  # a device rounds up to 32
    assert value(record, "weights_encoded_bytes") > 0
    assert value(record, "weights_bytes") == 16 * 24 * 9
    assert record.artifact is not None
    assert (record.artifact.sha256, record.artifact.pte_bytes) == ("", 0)  # there is no .pte


# A program that is compiled again.


SETUPS = (
    ("ethos-u65-512", "Dedicated_Sram_384KB", None),
    ("ethos-u55-128", "Sram_Only", None),
    ("ethos-u85-1024", "Dedicated_Sram_384KB", None),
    ("ethos-u85-2048", "Shared_Sram", "Ethos_U85_SYS_DRAM_High"),
)


def models() -> list[TorchModel]:
    """Return a model with two delegates, and one with a transposed convolution, whose rows are split and invented."""

    def sort(self: Any, x: torch.Tensor) -> torch.Tensor:
        values = torch.sort(self.head(x).relu().flatten(1), 1)[0].reshape(1, 16, 8, 8)
        return nn.functional.gelu(self.tail(values))

    torch.manual_seed(0)
    two = keeping(sort, head=nn.Conv2d(8, 16, 3, padding=1), tail=nn.Conv2d(16, 8, 1))
    return [
        from_module(two, (torch.randn(1, 8, 8, 8),), label="sorted"),
        from_module(nn.ConvTranspose2d(8, 8, 3, 2), (torch.randn(1, 8, 7, 7),), label="transposed"),
    ]


def contents(artifact: Artifact) -> list[Delegate]:
    """Return the delegates of a program without the names of tensors that Vela invents by counting."""

    def named(row: NpuOp) -> NpuOp:
        return replace(row, tensor="#") if row.tensor.startswith("#") else row

    return [replace(delegate, npu_ops=tuple(map(named, delegate.npu_ops))) for delegate in artifact.delegates]


def test_what_is_compiled_again_is_what_lowering_makes(tmp_path: Path) -> None:
    """With a user's file of Vela, too, in which reading begins later."""
    own = tmp_path / "vela.ini"
    own.write_text(VelaIni.shipped().text.replace("read_latency=", "read_latency=1"))
    for at, model in enumerate(models()):
        bases = {family: lower(model, EthosU.parse(f"ethos-{family}-256")) for family in ("u55", "u85")}
        for npu, mode, system in SETUPS[at::2]:
            ini = own if mode == "Sram_Only" else None
            setup = VelaSetup.of(CompileOptions(npu=npu, memory_mode=mode, system_config=system, vela_ini=ini))
            if ini:
                ini.unlink()  # what was read is what counts
            right = lower(model, setup.npu, vela=setup)
            artifact = recompile_for(bases["u85" if "u85" in npu else "u55"], setup)
            assert contents(artifact) == contents(right), npu
            for name in ("npu", "memory_mode", "vela_flags", "vela_ini", "question", "placement", "scheme"):
                assert getattr(artifact, name) == getattr(right, name)
            if not at:  # the comparison sees the memory mode: it would fail if another one were taken
                other = VelaSetup.default(setup.npu, MemoryMode("Sram_Only"))
                assert contents(recompile_for(bases["u85" if "u85" in npu else "u55"], other)) != contents(right), npu
        with pytest.raises(RecompilationDeparts, match="for ethos-u55-256, whose TOSA is not ethos-u85-128's"):
            recompile_for(bases["u55"], VelaSetup.default(EthosU.parse("ethos-u85-128")))


def test_a_program_that_is_rewritten_for_one_npu_only_has_to_be_lowered() -> None:
    model = models()[0]  # Vela would place the table of its gelu beyond the SHRAM of a small Ethos-U55
    small, smaller = EthosU.parse("ethos-u55-64"), VelaSetup.default(EthosU.parse("ethos-u55-32"))
    with pytest.raises(RecompilationDeparts, match="a defect of Vela is met on ethos-u55-32"):
        recompile_for(lower(model, EthosU.parse("ethos-u55-256")), smaller)
    artifact = recompile_for(lower(model, small), smaller)
    assert contents(artifact) == contents(lower(model, smaller.npu, vela=smaller))
    assert [delegate.defects for delegate in artifact.delegates] == [(), ("vela-table-beyond-shram",)]
