"""What a night is compared with, and what of that is red."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.harness.nightly.aftermath import Aftermath, follow_up
from ethos_hil.harness.nightly.conduct import AUDIT, Conducted
from ethos_hil.harness.nightly.config import NightlyConfig, read_config
from ethos_hil.harness.nightly.judgement import judge
from ethos_hil.harness.nightly.outcome import NightOutcome
from ethos_hil.harness.nightly.plan import plan_of
from ethos_hil.harness.nightly.preparation import before
from ethos_hil.harness.nightly.quarantine import Quarantined, today
from ethos_hil.harness.nightly.tests.plans import record, write
from ethos_hil.harness.progress import Silent
from ethos_hil.lowering.errors import UsageError
from ethos_hil.results.gate.policy import DEFAULT
from ethos_hil.results.history import History
from ethos_hil.results.record import Record
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.verdict import FailureKind

PART = "suite 1: virtual"


@pytest.fixture
def config(tmp_path: Path) -> NightlyConfig:
    text = '[[suite]]\npaths = ["t.py"]\n[compare]\nagainst = "last"\n[history]\nfolder = "history"\n'
    return read_config(write(tmp_path, text))


def followed(
    config: NightlyConfig, name: str, *records: Record, quarantine: tuple[Quarantined, ...] = ()
) -> tuple[Aftermath, NightOutcome]:
    """Do what follows a night with these records."""
    judgement = judge(plan_of(config), records, Conducted(), quarantine, today())
    made = tuple(replace(each, run=replace(each.run, name=name)) for each in records if each.run is not None)
    results = RunResults(name, "2026-11-25T01:00:00+00:00", made)
    found = follow_up(config, results, judgement, before(config, name), DEFAULT, Silent())
    return found, NightOutcome(name, "", (), False, judgement, found, (), {})


def at(time: str, *, commit: str = "", **facts: object) -> Record:
    made = record("t", **facts)  # type: ignore[arg-type]
    assert made.run is not None
    return replace(made, created=time, run=replace(made.run, commit=commit))


def test_a_number_that_moved_since_the_last_night_is_red(config: NightlyConfig) -> None:
    found, outcome = followed(config, "a", at("2026-11-20T01:00:00+00:00"))
    assert (found.comparison, outcome.status) == (None, 0)
    found, outcome = followed(config, "b", at("2026-11-21T01:00:00+00:00", cycles=101))
    assert found.comparison is not None
    assert found.comparison.before == "a"
    assert outcome.status == 1
    assert outcome.red[0].startswith("regressed: t ethos-u55-128: npu_cycles 100")
    again, outcome = followed(config, "b", at("2026-11-21T01:00:00+00:00", cycles=101))
    assert again.comparison is not None
    assert again.comparison.before == "a", "a night that is followed up again is not compared with itself"
    assert config.history is not None
    assert [run["run"] for run in History(config.history).runs()] == ["a", "b"]


def test_what_is_in_quarantine_does_not_fail_the_gate(config: NightlyConfig) -> None:
    followed(config, "a", at("2026-11-20T01:00:00+00:00"))
    failing = at("2026-11-21T01:00:00+00:00", kind=FailureKind.MISMATCH)
    entry = Quarantined("t", FailureKind.MISMATCH, "why", "issue", "ada", today())
    found, outcome = followed(config, "b", failing, quarantine=(entry,))
    assert found.comparison is not None
    assert (found.comparison.passed, found.failing, outcome.status) == (False, (), 0)
    _, outcome = followed(config, "b", failing)
    assert outcome.status == 1


def test_an_exact_number_that_differs_between_two_runs_of_a_night_is_red(config: NightlyConfig) -> None:
    twice = (record("t"), record("t", PART + AUDIT))
    assert followed(config, "a", *twice)[1].status == 0
    found, outcome = followed(config, "a", record("t"), record("t", PART + AUDIT, cycles=101))
    assert found.unstable == ("t (npu_cycles modelled)",)
    assert (outcome.status, outcome.red) == (1, ("unstable: t (npu_cycles modelled)",))
    assert "1 verified" in outcome.sentence


def test_a_commit_is_the_run_of_it_or_of_the_nearest_one_before(config: NightlyConfig) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(config.folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    commits = []
    for number in range(3):
        git("commit", "-q", "--allow-empty", "-m", str(number))
        commits.append(git("rev-parse", "HEAD"))
    for name, commit in (("a", commits[0]), ("b", commits[1])):
        followed(config, name, at("2026-11-20T01:00:00+00:00", commit=commit))
    for asked, name in ((commits[0], "a"), (commits[0][:10], "a"), (commits[2], "b")):
        found = before(replace(config, against=asked), "c")
        assert found is not None
        assert found.name == name
    with pytest.raises(UsageError, match="has no run 0000000"):
        before(replace(config, against="0000000"), "c")


def test_a_clock_that_went_backwards_since_the_last_run_of_the_history_is_said(config: NightlyConfig) -> None:
    followed(config, "a", at("2999-11-20T01:00:00+00:00"))
    with pytest.raises(UsageError, match=r"the last run of .* is of 2999-11-20T01:00:00, and it is ") as error:
        before(config, "b")
    assert error.value.hint == "set the clock, or move a.parquet away"


def test_a_history_with_another_file_is_named(config: NightlyConfig) -> None:
    assert config.history is not None
    config.history.mkdir()
    (config.history / "x.parquet").write_text("no")
    with pytest.raises(UsageError, match="is no history: "):
        before(config, "b")
