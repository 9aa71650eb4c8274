"""What is red and what is not: verdicts, quarantine, lost tests, repeats."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from ethos_hil.base.judge import Quarantined
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind, Standing, Verdict
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.nightly import NightOutcome
from ethos_hil.harness.nightly.plan import NightlyPlan, plan_of
from ethos_hil.harness.nightly.preparation import today
from ethos_hil.harness.nightly.tests.plans import ended, night, record, write
from ethos_hil.results.gate.account import AUDIT, Account
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import ReportedFailure, Selection

PART = "suite 1: virtual"
TEXT = '[[suite]]\npaths = ["test_plus.py"]\n'
ENTRY = Quarantined("t*", FailureKind.MISMATCH, "why", "issue", "ada", today())


@pytest.fixture
def plan(tmp_path: Path) -> NightlyPlan:
    return plan_of(read_config(write(tmp_path, TEXT)))


def judged(
    plan: NightlyPlan,
    *records: Record,
    quarantine: tuple[Quarantined, ...] = (),
    day: date | None = None,
    results: RunResults | None = None,
    **rest: object,
) -> Account:
    """Return the account of a night that has these records, and chose just them."""
    run = results if results is not None else night(plan, *records)
    return account_of_night(plan, run, Conducted(**rest), quarantine, day or today())  # type: ignore[arg-type]


def outcome(account: Account) -> NightOutcome:
    return NightOutcome("r", "", (), False, account, (), {})


def letters(account: Account) -> str:
    return "".join(test.standing.letter for test in account.tests)


def test_only_what_failed_or_is_unverified_is_red(plan: NightlyPlan) -> None:
    account = judged(
        plan,
        record("a"),
        record("b", verdict=Verdict.SKIPPED, kind=FailureKind.CAPABILITY),
        record("c", kind=FailureKind.DELEGATION, defect="https://example.org"),
        record("d", kind=FailureKind.MISMATCH),
        record("e", verdict=Verdict.UNVERIFIED, kind=FailureKind.NO_REFERENCE),
    )
    assert letters(account) == "VSDFU"
    assert {test.name: test.red for test in account.tests if test.red} == {
        "d": "mismatch: what mismatch says",
        "e": "no-reference: what no-reference says",
    }
    assert (outcome(account).status, len(outcome(account).red)) == (1, 2)
    assert outcome(account).sentence == "r: 1 verified, 1 skipped, 1 known defect, 1 failed, 1 unverified; red: 2"


def test_what_is_in_quarantine_is_not_red_until_it_is_fixed(plan: NightlyPlan) -> None:
    failing = judged(plan, record("t", kind=FailureKind.MISMATCH), quarantine=(ENTRY,))
    assert [(test.standing, test.red) for test in failing.tests] == [(Standing.QUARANTINED, "")]
    assert outcome(failing).status == 0
    fixed = judged(plan, record("t"), quarantine=(ENTRY,))
    assert fixed.tests[0].red.startswith("fixed: ")
    assert outcome(fixed).status == 1
    otherwise = judged(plan, record("t", kind=FailureKind.FAULT), quarantine=(ENTRY,))
    assert (letters(otherwise), outcome(otherwise).status) == ("F", 1)
    late = judged(plan, record("t", kind=FailureKind.MISMATCH), quarantine=(ENTRY,), day=today() + timedelta(1))
    assert late.tests[0].red.startswith("its quarantine expired")


def test_a_test_that_stopped_before_its_target_is_known_by_its_parts(plan: NightlyPlan) -> None:
    lost = record("t", kind=FailureKind.MISMATCH, target="none")
    entry = Quarantined(**{**vars(ENTRY), "target": "virtual"})
    assert judged(plan, lost, quarantine=(entry,)).tests[0].standing.letter == "Q"


def test_the_last_attempt_counts(plan: NightlyPlan) -> None:
    first = record("t", kind=FailureKind.LINK)
    second = record("t", attempt=2)
    for records in ((first, second), (second, first)):
        assert letters(judged(plan, *records)) == "V"


def test_second_runs_of_the_audit_are_no_tests(plan: NightlyPlan) -> None:
    assert len(judged(plan, record("t"), record("t", PART + AUDIT)).tests) == 1


def test_where_the_target_is_down_nothing_is_judged(plan: NightlyPlan) -> None:
    account = judged(plan, record("t", kind=FailureKind.LINK), down={"virtual": "no QEMU"})
    assert (account.tests, outcome(account).status) == ((), 3)
    assert outcome(account).sentence == "r: nothing ran; not run, because of their target: virtual; infrastructure"


def test_a_model_without_a_record_is_missing_in_its_shard_only(tmp_path: Path) -> None:
    plan = plan_of(read_config(write(tmp_path, '[[model]]\nmodel = "net.py:net"\n')))
    assert letters(judged(plan)) == "M"
    shards = [Shard(number, 2) for number in (1, 2)]
    sides = [
        account_of_night(plan, night(plan, shard=shard), Conducted(), (), today(), (shard,)).tests for shard in shards
    ]
    assert sorted(map(len, sides)) == [0, 1]


# What was chosen has a record, and what pytest calls failed is red. Each of these was a green night.


def changed(results: RunResults, **changes: object) -> RunResults:
    return replace(results, **changes)  # type: ignore[arg-type]


def red(plan: NightlyPlan, results: RunResults, **rest: object) -> list[str]:
    account = judged(plan, results=results, **rest)  # type: ignore[arg-type]
    assert outcome(account).status == bool(account.red)
    return [*account.red]


def test_a_night_as_it_should_be_is_green(plan: NightlyPlan) -> None:
    assert red(plan, night(plan, record("a"), record("b"))) == []
    assert judged(plan, record("a")).whole


def test_a_suite_that_chose_nothing_is_red_unless_its_plan_says_so(plan: NightlyPlan, tmp_path: Path) -> None:
    (line,) = red(plan, night(plan))
    assert line.startswith(f"{PART}: it chose no test (")
    allowed = plan_of(read_config(write(tmp_path, TEXT + "may_be_empty = true\n")))
    assert red(allowed, night(allowed)) == []


def test_a_night_of_test_functions_says_that_they_ran(plan: NightlyPlan) -> None:
    chosen = replace(night(plan), selections=(Selection(PART, functions=("f::a", "f::b")),))
    account = judged(plan, results=ended(chosen, ran=frozenset({"f::a", "f::b"}), idle=frozenset({"f::b"})))
    assert account.sentence == "test functions without a record: 1; green"


def test_a_failure_that_has_a_verdict_of_its_own_is_told_once(plan: NightlyPlan) -> None:
    failing = night(plan, record("t", kind=FailureKind.MISMATCH))
    complaint = ReportedFailure("t", "call", "mismatch")
    assert len(red(plan, ended(failing, status=1, complaints=(complaint,)))) == 1
    assert red(plan, ended(failing, status=1, complaints=(complaint,)), quarantine=(ENTRY,)) == []
    torn = ended(failing, status=1, complaints=(complaint, ReportedFailure("t", "teardown", "no")))
    assert red(plan, torn, quarantine=(ENTRY,)) == [f"{PART}: the teardown of t failed: no"]


def test_quarantine_does_not_swallow_what_is_missing(plan: NightlyPlan) -> None:
    whole = night(plan, record("t"), record("u"))
    account = judged(plan, results=changed(whole, records=whole.records[1:]), quarantine=(ENTRY,))
    assert [test.standing for test in account.tests if test.red] == [Standing.MISSING]


def test_two_entries_of_one_test_swallow_a_kind_each(plan: NightlyPlan) -> None:
    entries = (ENTRY, replace(ENTRY, kind=FailureKind.FAULT))
    for kind in (FailureKind.MISMATCH, FailureKind.FAULT):
        assert letters(judged(plan, record("t", kind=kind), quarantine=entries)) == "Q"
    assert letters(judged(plan, record("t", kind=FailureKind.STATE), quarantine=entries)) == "F"
