"""What is red and what is not: verdicts, quarantine, lost tests, repeats. `test_attacks.py` has what must be red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from ethos_hil.base.judge import Quarantined
from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind, Standing, Verdict
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.plan import NightlyPlan, plan_of
from ethos_hil.harness.nightly.preparation import today
from ethos_hil.harness.nightly.tests.plans import ended, night, record, told, write
from ethos_hil.results.gate.account import AUDIT, Account
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import LeftOut, ReportedFailure, Selection

PART = "suite 1: virtual"
TEXT = '[[suite]]\npaths = ["test_plus.py"]\n'
BAD = FailureKind.MISMATCH
ENTRY = Quarantined("t*", BAD, "why", "issue", "ada", today())


@pytest.fixture
def plan(tmp_path: Path) -> NightlyPlan:
    return plan_of(read_config(write(tmp_path, TEXT)))


def judged(
    plan: NightlyPlan,
    results: RunResults,
    *quarantine: Quarantined,
    day: date | None = None,
    down: dict[str, str] | None = None,
) -> Account:
    """Return the account of a night."""
    return account_of_night(plan, results, Conducted(down=down or {}), quarantine, day or today())


def skipped(name: str) -> Record:
    return record(name, verdict=Verdict.SKIPPED, kind=FailureKind.CAPABILITY)


def left_out(plan: NightlyPlan) -> RunResults:
    """Return a night that has left out tests, in three shards, and two sessions of a suite."""
    left = LeftOut(("f::test_a", "f::test_b", "f::test_c", "f::test_d"), ("g::test_e_MI",), 7)
    results = night(plan, record("a"))
    return replace(results, selections=tuple(replace(row, left_out=left) for row in results.selections * 3))


def of_functions(plan: NightlyPlan) -> RunResults:
    chosen = replace(night(plan), selections=(Selection(PART, functions=("f::a", "f::b")),))
    return ended(chosen, ran=frozenset({"f::a", "f::b"}), idle=frozenset({"f::b"}))


def function_beside(plan: NightlyPlan) -> RunResults:
    results = night(plan, record("a"))
    chosen = replace(*results.selections, functions=("t.py::f",))
    return ended(replace(results, selections=(chosen,)), ran=frozenset({"t.py::f"}))


def complained(results: RunResults, when: str = "call") -> RunResults:
    return ended(results, status=1, complaints=(ReportedFailure("t", "call", "no"), ReportedFailure("t", when, "no")))


NIGHTS: dict[str, Callable[[NightlyPlan], RunResults]] = {
    "one of each verdict": lambda p: night(
        p,
        *(record("a"), skipped("b"), record("c", kind=FailureKind.DELEGATION, defect="https://example.org")),
        *(record("d", kind=BAD), record("e", verdict=Verdict.UNVERIFIED, kind=FailureKind.NO_REFERENCE)),
    ),
    "all verified": lambda p: night(p, record("a"), record("b")),
    "a second attempt": lambda p: night(p, record("t", kind=FailureKind.LINK), record("t", attempt=2)),
    "a second attempt first": lambda p: night(p, record("t", attempt=2), record("t", kind=FailureKind.LINK)),
    "an audit": lambda p: night(p, record("t"), record("t", PART + AUDIT)),
    # It ran again when the night was resumed: of one plan and state that is two answers to one question.
    "failed, then verified": lambda p: night(p, record("t", kind=BAD), record("t")),
    "a failure that pytest tells, too": lambda p: complained(night(p, record("t", kind=BAD))),
    "a failure, and one of its teardown": lambda p: complained(night(p, record("t", kind=BAD)), "teardown"),
    "functions that ran": of_functions,
    "tests that were left out": left_out,
    "a function that ran beside a test": function_beside,
}
QUARANTINED: dict[str, Callable[[NightlyPlan], RunResults]] = {
    "a failure of its kind": lambda p: night(p, record("t", kind=BAD)),
    "a failure of its kind that pytest tells, too": lambda p: complained(night(p, record("t", kind=BAD))),
    "a failure of its kind, and one of its teardown": lambda p: complained(night(p, record("t", kind=BAD)), "teardown"),
    "verified": lambda p: night(p, record("t"), record("u")),
    "a failure of another kind": lambda p: night(p, record("t", kind=FailureKind.FAULT), record("u")),
    "unverified": lambda p: night(p, record("t", verdict=Verdict.UNVERIFIED, kind=FailureKind.NO_REFERENCE)),
    "skipped": lambda p: night(p, skipped("t"), record("u")),
    "only compiled": lambda p: night(p, record("t", verdict=Verdict.COMPILED_ONLY), record("u")),
    "missing": lambda p: replace(night(p, record("t"), record("u")), records=(record("u"),)),
    "no test": lambda p: night(p, record("a")),
}


@pytest.mark.parametrize("what", NIGHTS)
def test_a_night_is_judged(plan: NightlyPlan, what: str, recorded: Recorded) -> None:
    recorded.check(told(judged(plan, NIGHTS[what](plan))))


@pytest.mark.parametrize("what", QUARANTINED)
def test_quarantine_swallows_one_kind_of_failure_and_nothing_else(
    plan: NightlyPlan, what: str, recorded: Recorded
) -> None:
    told_now = told(judged(plan, QUARANTINED[what](plan), ENTRY))
    recorded.check(told_now.replace(str(today()), "[today]"))


def test_a_quarantine_that_expired_is_red(plan: NightlyPlan) -> None:
    (test,) = judged(plan, night(plan, record("t", kind=BAD)), ENTRY, day=today() + timedelta(1)).tests
    assert test.red.startswith("its quarantine expired")


def test_a_test_that_stopped_before_its_target_is_known_by_its_parts(plan: NightlyPlan) -> None:
    lost = night(plan, record("t", kind=BAD, target="none"))
    assert judged(plan, lost, replace(ENTRY, target="virtual")).tests[0].standing is Standing.QUARANTINED


def test_two_entries_of_one_test_swallow_a_kind_each(plan: NightlyPlan) -> None:
    entries = (ENTRY, replace(ENTRY, kind=FailureKind.FAULT))
    kinds = (BAD, FailureKind.FAULT, FailureKind.STATE)
    tests = [judged(plan, night(plan, record("t", kind=kind)), *entries).tests for kind in kinds]
    assert "".join(test.standing.letter for (test,) in tests) == "QQF"


def test_where_the_target_is_down_nothing_is_judged(plan: NightlyPlan, recorded: Recorded) -> None:
    results = night(plan, record("t", kind=FailureKind.LINK))
    recorded.check(told(judged(plan, results, down={"virtual": "no QEMU"})))


def test_a_model_without_a_record_is_missing_in_its_shard_only(tmp_path: Path) -> None:
    plan = plan_of(read_config(write(tmp_path, '[[model]]\nmodel = "net.py:net"\n')))
    assert [test.standing for test in judged(plan, night(plan)).tests] == [Standing.MISSING]
    shards = [Shard(number, 2) for number in (1, 2)]
    sides = [
        account_of_night(plan, night(plan, shard=shard), Conducted(), (), today(), (shard,)).tests for shard in shards
    ]
    assert sorted(map(len, sides)) == [0, 1]


def test_a_suite_that_chose_nothing_is_green_where_its_plan_says_so(tmp_path: Path) -> None:
    plan = plan_of(read_config(write(tmp_path, TEXT + "may_be_empty = true\n")))
    assert judged(plan, night(plan)).green
