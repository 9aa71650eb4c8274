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
from ethos_hil.results.selection import LeftOut, ReportedFailure, Selected, Selection
from ethos_hil.results.store import Skipped

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


def test_a_quarantine_of_no_test_is_noted(plan: NightlyPlan) -> None:
    account = judged(plan, record("a"), quarantine=(ENTRY,))
    assert account.notes == ("in quarantine, and not among the tests: t*",)
    assert outcome(account).status == 0


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


def test_a_session_that_left_no_selection_or_no_end_is_red(plan: NightlyPlan) -> None:
    whole = night(plan, record("a"))
    suites = [selection for selection in whole.selections if selection.part != PART]
    line = f"{PART}: nothing says what it chose: pytest ended before it had; `pytest --collect-only test_plus.py` "
    line += "may say why"
    assert line in red(plan, changed(whole, selections=tuple(suites)))
    assert red(plan, changed(whole, sessions=())) == [f"{PART}: nothing says how its session ended"]
    assert not judged(plan, results=changed(whole, sessions=())).whole


def test_a_lost_record_and_a_line_that_cannot_be_read_are_red(plan: NightlyPlan) -> None:
    whole = night(plan, record("a"), record("b"))
    lost = changed(whole, records=whole.records[:-1])
    assert red(plan, lost) == [
        "M b on virtual ethos-u55-128: internal: it was chosen and has no record: it did not run, or what ran it ended "
        "before there was one"
    ]
    assert red(plan, changed(whole, skipped=(Skipped("records-1.jsonl:2", "no JSON"),))) == [
        "records-1.jsonl:2 cannot be read: no JSON"
    ]
    for results in (lost, changed(whole, skipped=(Skipped("x", "y"),))):
        assert not judged(plan, results=results).whole


def test_a_night_of_test_functions_says_that_they_ran(plan: NightlyPlan) -> None:
    chosen = replace(night(plan), selections=(Selection(PART, functions=("f::a", "f::b")),))
    account = judged(plan, results=ended(chosen, ran=frozenset({"f::a", "f::b"}), idle=frozenset({"f::b"})))
    assert account.sentence == "test functions without a record: 1; green"


def test_what_pytest_skipped_says_so(plan: NightlyPlan) -> None:
    """Such as by a mark: its process did not end."""
    lost = replace(night(plan, record("a"), record("b")), records=(record("a"),))
    (line,) = red(plan, ended(lost, ran=frozenset({"b"})))
    assert line.endswith("internal: it was chosen and has no record: a mark or a hook of pytest skipped it")


def test_what_was_left_out_is_noted_once(plan: NightlyPlan) -> None:
    """In three shards, and two sessions of a suite."""
    left = LeftOut(("f::test_a", "f::test_b", "f::test_c", "f::test_d"), ("g::test_e_MI",), 7)
    (selection,) = night(plan, record("a")).selections
    account = judged(
        plan, results=replace(night(plan, record("a")), selections=(replace(selection, left_out=left),) * 3)
    )
    assert account.green
    assert account.notes == (
        "suite 1: 1 taken out by a conftest.py or a plug-in: g::test_e_MI",
        "suite 1: 4 not chosen, because their names end in no profile: f::test_a, f::test_b, f::test_c, ...",
        "suite 1: 7 deselected by addopts, PYTEST_ADDOPTS or a plug-in",
    )


@pytest.mark.parametrize("when", ["setup", "call", "teardown", "collect"])
def test_what_pytest_calls_failed_is_red_by_its_id(plan: NightlyPlan, when: str) -> None:
    """Also a test of the name of a verified one, in another file, and the teardown of one that is verified."""
    whole = night(plan, record("a/t.py::test_x_MI"))
    for name in ("b/t.py::test_x_MI", "a/t.py::test_x_MI"):
        (line,) = red(plan, ended(whole, status=1, complaints=(ReportedFailure(name, when, "no"),)))
        assert name in line


def test_a_failure_that_has_a_verdict_of_its_own_is_told_once(plan: NightlyPlan) -> None:
    failing = night(plan, record("t", kind=FailureKind.MISMATCH))
    complaint = ReportedFailure("t", "call", "mismatch")
    assert len(red(plan, ended(failing, status=1, complaints=(complaint,)))) == 1
    assert red(plan, ended(failing, status=1, complaints=(complaint,)), quarantine=(ENTRY,)) == []
    torn = ended(failing, status=1, complaints=(complaint, ReportedFailure("t", "teardown", "no")))
    assert red(plan, torn, quarantine=(ENTRY,)) == [f"{PART}: the teardown of t failed: no"]


@pytest.mark.parametrize("status", [1, 2, 3, -9])
def test_a_status_that_nothing_explains_is_red(plan: NightlyPlan, status: int) -> None:
    (line,) = red(plan, ended(night(plan, record("a")), status=status))
    assert f"pytest ended with status {status}" in line


def test_a_file_that_skipped_itself_and_a_part_that_was_skipped_whole_are_red(plan: NightlyPlan) -> None:
    (line,) = red(plan, ended(night(plan, record("a")), unseen=("t.py: could not import 'x'",)))
    assert line == f"{PART}: a file skipped itself, with all of its tests: t.py: could not import 'x'"
    (line,) = red(plan, night(plan, record("a", verdict=Verdict.SKIPPED, kind=FailureKind.CAPABILITY)))
    assert line == f"{PART}: none of its tests ran: what capability says"


def test_a_function_that_was_chosen_and_did_not_run_is_red(plan: NightlyPlan) -> None:
    whole = night(plan, record("a"))
    selections = tuple(
        replace(selection, functions=("t.py::f",)) if selection.part == PART else selection
        for selection in whole.selections
    )
    assert red(plan, changed(whole, selections=selections)) == [f"{PART}: t.py::f was chosen and did not run"]
    assert red(plan, ended(changed(whole, selections=selections), ran=frozenset({"t.py::f"}))) == []


def test_a_record_of_what_was_not_chosen_is_red(plan: NightlyPlan) -> None:
    whole = night(plan, record("a"), record("b"))
    fewer = tuple(
        replace(selection, tests=selection.tests[:1]) if selection.part == PART else selection
        for selection in whole.selections
    )
    assert red(plan, changed(whole, selections=fewer)) == [f"{PART}: b has a record, and was not chosen"]


def test_an_audit_that_died_is_red(plan: NightlyPlan) -> None:
    whole = night(plan, record("a"))
    audit = Selection(PART + AUDIT, tests=(Selected("a"),))
    lines = red(plan, changed(whole, selections=(*whole.selections, audit)))
    assert lines == [
        f"{PART}{AUDIT}: nothing says how its session ended",
        f"{PART}{AUDIT}: a was chosen and has no record",
    ]
    again = changed(whole, selections=(*whole.selections, audit), records=(*whole.records, record("a", PART + AUDIT)))
    assert red(plan, again) == [f"{PART}{AUDIT}: nothing says how its session ended"]


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        (Verdict.UNVERIFIED, FailureKind.NO_REFERENCE),
        (Verdict.SKIPPED, FailureKind.CAPABILITY),
        (Verdict.COMPILED_ONLY, None),
        (Verdict.FAILED, FailureKind.FAULT),
        (Verdict.VERIFIED, None),
    ],
)
def test_quarantine_swallows_one_kind_of_failure_and_nothing_else(
    plan: NightlyPlan, verdict: Verdict, kind: FailureKind | None
) -> None:
    account = judged(plan, record("t", verdict=verdict, kind=kind), record("u"), quarantine=(ENTRY,))
    assert [bool(test.red) for test in account.tests] == [True, False]


def test_quarantine_does_not_swallow_what_is_missing(plan: NightlyPlan) -> None:
    whole = night(plan, record("t"), record("u"))
    account = judged(plan, results=changed(whole, records=whole.records[1:]), quarantine=(ENTRY,))
    assert [test.standing for test in account.tests if test.red] == [Standing.MISSING]


def test_two_entries_of_one_test_swallow_a_kind_each(plan: NightlyPlan) -> None:
    entries = (ENTRY, replace(ENTRY, kind=FailureKind.FAULT))
    for kind in (FailureKind.MISMATCH, FailureKind.FAULT):
        assert letters(judged(plan, record("t", kind=kind), quarantine=entries)) == "Q"
    assert letters(judged(plan, record("t", kind=FailureKind.STATE), quarantine=entries)) == "F"


def test_a_test_that_failed_before_the_night_was_resumed_stays_red(plan: NightlyPlan) -> None:
    """It ran again and is verified: of one plan and state that is two answers to one question."""
    assert letters(judged(plan, record("t", kind=FailureKind.MISMATCH), record("t"))) == "F"
