"""Profiles of whole runs: the same rows from the virtual board and through an FVP's command line."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Op, Record
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.profile.options import EVENTS, ProfileMethod
from ethos_hil.harness.profile.prefix import prefix_rows
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE
from ethos_hil.harness.targets.contract import contract_programs
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.verdict.findings import Report

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


@functools.cache
def profiled(
    npu: str, method: ProfileMethod | None, target: str = "virtual", events: tuple[str, ...] = ("all",)
) -> Report:
    _, convolutions = contract_programs(npu)
    board = make_target(target, EthosU.parse(npu))
    question = Question("convolutions", npu=npu, target=target, profile=True, found_by=method, events=events)
    return run_artifact(convolutions.artifact, board, question)


def total(record: Record) -> float:
    metric = record.metric("npu_cycles")
    assert metric is not None
    return metric.value


def operations(record: Record) -> list[tuple[str, int | None]]:
    return [(op.id, op.cycles) for op in record.ops if op.id != "job"]


@pytest.mark.parametrize("npu", NPUS)
def test_prefixes_find_what_the_model_knows(npu: str) -> None:
    by_prefix, by_share = profiled(npu, ProfileMethod.PREFIX).record, profiled(npu, None).record
    assert by_prefix.verdict == by_share.verdict == "verified", "the last job's outputs are compared, bit for bit"
    assert operations(by_prefix) == operations(by_share)
    assert {op.method for op in by_share.ops} == {"shares"}
    assert {op.method for op in by_prefix.ops} == {"prefix"}
    assert [op.cycles for op in by_prefix.ops if op.id == "job"] == [0], "the model has no cost of a job"
    assert sum(op.cycles or 0 for op in by_prefix.ops) == total(by_prefix) == total(by_share)


@pytest.mark.parametrize(("npu", "passes"), [("ethos-u55-128", 2), ("ethos-u85-256", 1)])
def test_all_events_are_counted_in_as_many_passes_as_the_counters_need(npu: str, passes: int) -> None:
    record = profiled(npu, ProfileMethod.PREFIX).record
    assert record.executions == passes
    for op in record.ops:
        assert set(op.events) == set(EVENTS)
        assert op.events["npu_active"] == op.cycles
    assert sum(op.events["mac_active"] for op in record.ops) > 0


def test_through_the_command_line_of_an_fvp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(tmp_path))
    record = profiled("ethos-u55-128", None, "corstone-300", ("npu_active",)).record
    assert record.executions == 3, "where two executions may differ, there are three"
    assert {(op.method, op.provenance, op.spread) for op in record.ops} == {("prefix", "modelled", 0)}, (
        "a launcher says what it is"
    )
    assert operations(record) == operations(profiled("ethos-u55-128", None).record)


def again(outcome: Outcome, report: Report) -> tuple[Op, ...]:
    return prefix_rows(report.artifact, EthosU.parse("ethos-u55-128"), outcome, [(35,)], "modelled")


def test_a_lost_prefix_is_noticed() -> None:
    report = profiled("ethos-u55-128", ProfileMethod.PREFIX, events=("npu_active",))
    assert again(report.outcome, report) == report.record.ops
    (only,) = report.outcome.runs
    (call,) = only.delegates
    less = dataclasses.replace(call, prefixes=call.prefixes[:-1])
    lost = dataclasses.replace(report.outcome, runs=(dataclasses.replace(only, delegates=(less,)),))
    with pytest.raises(TargetError, match="has none"):
        again(lost, report)


def test_what_cannot_be_profiled_is_refused() -> None:
    with pytest.raises(UsageError, match="--events is 'mac'"):
        profiled("ethos-u55-128", ProfileMethod.PREFIX, events=("mac",))


MODEL = str(Path(__file__).parents[3] / "suites/models/digits.py:digits")
PLACES = {"corstone-300": "ethos-u55-128", "corstone-320": "ethos-u85-256"}


def digits(npu: str, target: str, method: ProfileMethod) -> Record:
    """Run the digits model with a profile."""
    return run(Question(MODEL, npu=npu, target=target, profile=True, found_by=method)).record


def on_the_cpu(record: Record) -> list[tuple[str, int | None, str, str]]:
    """Return the rows of the CPU without waiting."""
    assert record.profile is not None
    rows = [(row.id, row.count, row.unit, row.provenance) for row in record.profile.cpu if row.part != "wait"]
    assert rows
    assert {(unit, provenance) for _, _, unit, provenance in rows} == {("instructions", "instructions")}
    assert all(count for _, count, _, _ in rows)
    return rows


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("soc", PLACES)
def test_the_rows_are_those_of_the_virtual_board(monkeypatch: pytest.MonkeyPatch, launchers: Path, soc: str) -> None:
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(launchers))
    record = digits(PLACES[soc], soc, ProfileMethod.PREFIX)
    expected = digits(PLACES[soc], "virtual", ProfileMethod.SHARES)
    assert record.verdict == "verified"
    assert operations(record) == operations(expected)
    assert {op.method for op in record.ops} == {"prefix"}
    assert {op.provenance for op in record.ops} == {"modelled"}, "a launcher is not an FVP of Arm's"
    assert on_the_cpu(record) == on_the_cpu(expected), "the firmware is the same, and so is what it executes"
    assert sum(op.cycles or 0 for op in record.ops) == total(record)
