"""Points that are booted: verified, with the rows of a profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.judge import is_refusal
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.bench.bench import is_settled
from ethos_hil.harness.bench.case import SHORT, BenchCase, BenchInput, BenchPoint, BenchStep
from ethos_hil.harness.bench.case_work import CaseWork
from ethos_hil.harness.bench.points import PointSettings
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.results.latency import NPU_SECONDS

CASE = BenchCase(
    "conv_8x8x8",
    "conv",
    (BenchStep("Conv2d", args=(8, 8, 3)), BenchStep("ReLU")),
    (BenchInput((1, 8, 8, 8)),),
    tags=(SHORT, "mine"),
    source="grid.toml:3",
)
SETTINGS = PointSettings("test")


@pytest.fixture(scope="module")
def pool() -> Iterator[BoardPool]:
    with BoardPool() as boards:
        yield boards


def measure(
    pool: BoardPool, settings: PointSettings = SETTINGS, case: BenchCase = CASE, npu: str = "ethos-u55-128",
    mode: str = "Shared_Sram", target: str = "virtual",
) -> Record:  # fmt: skip
    system = EthosU.parse(npu).family.system.name
    (record,) = CaseWork(case, settings, pool).records([BenchPoint(case, npu, mode, system, target)])
    return record


def test_a_short_case_is_verified_and_agrees_with_its_timing(pool: BoardPool) -> None:
    booted, timed = measure(pool), measure(pool, replace(SETTINGS, boot=False))
    assert (booted.verdict, timed.verdict) == (Verdict.VERIFIED, Verdict.COMPILED_ONLY)
    assert booted.metric("npu_cycles") == timed.metric("npu_cycles")
    assert [(op.id, op.cycles) for op in booted.ops] == [(op.id, op.cycles) for op in timed.ops]
    for record in (booted, timed):
        assert record.bench is not None
        assert (record.bench.grid, record.bench.case, record.bench.group) == ("test", "conv_8x8x8", "conv")
        assert (record.bench.tags, record.bench.source) == ((SHORT, "mine"), "grid.toml:3")
        assert record.metric("weights_encoded_bytes") is not None
    assert booted.executions == 1
    assert timed.executions == 0


def test_times_are_at_the_clock_that_is_stated(pool: BoardPool) -> None:
    record = measure(pool, replace(SETTINGS, clock="100MHz", boot=False))
    cycles, seconds = record.metric("npu_cycles"), record.metric(NPU_SECONDS)
    assert cycles is not None
    assert seconds is not None
    assert seconds.value == pytest.approx(cycles.value / 100e6)


@pytest.mark.parametrize(
    ("case", "npu", "mode", "target", "kind", "message"),
    [
        (CASE, "ethos-u55-128", "Dedicated_Sram", "virtual", FailureKind.CAPABILITY, "not for ethos-u55-128"),
        (CASE, "ethos-u85-256", "Sram_Only", "corstone-300", FailureKind.CAPABILITY, "cannot have an ethos-u85-256"),
        (
            replace(CASE, steps=(BenchStep("Upsample", options={"scale_factor": 2}),)),
            "ethos-u55-128", "Shared_Sram", "virtual", FailureKind.DELEGATION, "an Ethos-U55 does not have it",
        ),
        (replace(CASE, steps=(BenchStep("NoLayer"),)), "ethos-u55-128", "Shared_Sram", "virtual", FailureKind.USAGE,
         "grid.toml:3"),
    ],
    ids=["mode", "target", "not-on-the-npu", "no-layer"],
)  # fmt: skip
def test_refusals_are_records_with_a_reason(
    pool: BoardPool, case: BenchCase, npu: str, mode: str, target: str, kind: FailureKind, message: str
) -> None:
    record = measure(pool, case=case, npu=npu, mode=mode, target=target)
    assert record.failure is not None
    assert record.failure.kind == kind
    assert message in record.failure.message
    assert is_refusal(record)
    assert record.bench is not None
    assert (record.npu, record.memory_mode, record.target.name) == (npu, mode, target)


def test_a_wrong_answer_is_no_refusal(pool: BoardPool) -> None:
    record = measure(pool)
    wrong = replace(record, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "output 0 differs"))
    assert not is_refusal(wrong)


@pytest.mark.parametrize(
    ("settings", "target"),
    [(SETTINGS, "board:/nowhere/mine.toml"), (replace(SETTINGS, vela_ini=Path("/nowhere/vela.ini")), "virtual")],
)
def test_a_file_that_is_gone_is_no_property_of_the_point(pool: BoardPool, settings: PointSettings, target: str) -> None:
    """Such as a board whose file was removed since the run began: an NPU that lacks something is not red in a night."""
    record = measure(pool, settings, target=target)
    assert record.failure is not None
    assert (record.verdict, record.failure.kind) == (Verdict.FAILED, FailureKind.NOT_AVAILABLE)
    assert not is_settled(record)
