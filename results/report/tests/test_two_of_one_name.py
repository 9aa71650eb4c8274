"""Two of one name in a night: two schemes, cases, methods, boards. They are told apart by name and never mixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from ethos_hil.base.record import Metric, Record, RunInfo, RunnerInfo, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.history import History
from ethos_hil.results.report.report import report
from ethos_hil.results.report.tests import samples
from ethos_hil.results.report.tests.test_report import parts
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.testing.synthetic_year import keep

Night = Sequence[Record]


def net(scheme: str = "a8w8", **changes: object) -> Record:
    sample = samples.model()
    assert sample.artifact is not None
    record = replace(sample, profile=None, artifact=replace(sample.artifact, scheme=scheme), system_config="High_End")
    return replace(record, **changes)  # type: ignore[arg-type]


def test(board: str) -> Record:
    return replace(samples.suite_of(1)[0], target=TargetInfo(board, "board", "corstone-300"))


test.__test__ = False  # type: ignore[attr-defined]
PAIRS: Mapping[str, tuple[Record, Record, str, str]] = {
    "scheme": (net(), net("a16w8"), "net.py:net (a8w8)", "net.py:net (a16w8)"),
    "method": (net(), net(method="decode"), "net.py:net (forward)", "net.py:net (decode)"),
    "system_config": (net(), net(system_config="Deep"), "net.py:net (High_End)", "net.py:net (Deep)"),
    "runner": (net(runner=RunnerInfo("a", "ab" * 32)), net(runner=RunnerInfo("b", "cd" * 32)),
               "net.py:net (abababababababab)", "net.py:net (cdcdcdcdcdcdcdcd)"),
    "board": (test("board:one"), test("board:two"), "U55_BI on board:one", "U55_BI on board:two"),
}  # fmt: skip
"""Two that differ in one thing, and what they are called."""


def counting(record: Record, cycles: float) -> Record:
    return replace(record, metrics=(Metric("npu_cycles", cycles, "cycles", "modelled"),), ops=())


def wrong(record: Record) -> Record:
    return samples.failed(record, FailureKind.MISMATCH, "3 of 8 elements differ")


def morning(folder: Path, *nights: Night) -> bytes:
    """The report of the last of some nights, against the one before."""
    *_, before, last = keep(folder, *nights, name="n", first=datetime(2026, 11, 10, 2))
    sides = (observations(night.records) for night in (before, last))
    return report(last, compare_runs(*sides, names=(before.name, last.name)), History(folder))


@pytest.mark.parametrize("kind", PAIRS)
def test_one_that_fails_is_not_the_other(tmp_path: Path, kind: str, recorded: Recorded) -> None:
    """It failed for two nights, and was verified before; the other one is verified, with its own cycles."""
    record, other, name, of_other = PAIRS[kind]
    record, other = counting(record, 1000), counting(other, 2000)
    page = parts(
        morning(tmp_path, (record, other), (wrong(record), other), (record, wrong(other)), (record, wrong(other)))
    )
    assert f"{of_other}</" in page["failures"]
    assert f"{name}</" not in page["failures"]
    recorded.check(page["failures"])
    recorded.check(page["matrix"].partition('<table id="grid"')[2], "matrix")


def test_two_that_nothing_tells_apart_are_two_rows() -> None:
    """Two models of a plan that both fail before they are compiled."""
    early = samples.failed(replace(net(), artifact=None, memory_mode="", metrics=(), ops=()), FailureKind.COMPILE, "no")
    both = tuple(replace(early, run=RunInfo("n", part=scheme)) for scheme in ("a8w8", "a16w8"))
    assert parts(report(RunResults("n", "", both)))["matrix"].count('<td class="F"') == 2
