"""Attacks on a night's colour, by what would make a night green that is not; and how other nights are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.judge import Quarantined, standing_of
from ethos_hil.base.record import BenchInfo, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind, Standing, Verdict
from ethos_hil.harness.campaign.merging import Conducted
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.judgement import account_of_night
from ethos_hil.harness.nightly.plan import NightlyPlan, plan_of
from ethos_hil.harness.nightly.preparation import today
from ethos_hil.harness.nightly.tests.plans import ended, night, night_in_lines, record, write
from ethos_hil.results.gate.account import AUDIT, Account, Accounted
from ethos_hil.results.gate.change import Cause, Change, Effect, RunComparison, Word
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import LeftOut, ReportedFailure, Selected, Selection
from ethos_hil.results.store import Skipped
from ethos_hil.results.subject import Subject

PART = "suite 1: virtual"
TEXT = '[[suite]]\npaths = ["test_plus.py"]\n'
BAD = FailureKind.MISMATCH
LINK = FailureKind.LINK
Attack = Callable[[NightlyPlan, RunResults], RunResults]


def failures(*ids: str, when: str = "call") -> tuple[ReportedFailure, ...]:
    return tuple(ReportedFailure(name, when, "") for name in ids)


def more(results: RunResults, *records: Record) -> RunResults:
    return replace(results, records=(*results.records, *records))


def chosen(results: RunResults, **changes: Any) -> RunResults:
    return replace(results, selections=tuple(replace(selection, **changes) for selection in results.selections))


def skipped(name: str) -> Record:
    return record(name, verdict=Verdict.SKIPPED, kind=FailureKind.CAPABILITY)


def audited(results: RunResults) -> RunResults:
    """Return a night that has chosen its tests for the audit, too, whose session ended well."""
    own = ended(chosen(results, part=PART + AUDIT), part=PART + AUDIT)
    return replace(own, selections=results.selections + own.selections, sessions=results.sessions + own.sessions)


def with_audit(results: RunResults) -> RunResults:
    """Return a night that has chosen a test for the audit, too."""
    return replace(results, selections=(*results.selections, Selection(PART + AUDIT, tests=(Selected("a"),))))


def judged(plan: NightlyPlan, results: RunResults, *quarantine: Quarantined, shards: tuple[Shard, ...] = ()) -> Account:
    return account_of_night(plan, results, Conducted(), quarantine, today(), shards)


def complained(results: RunResults, when: str = "call") -> RunResults:
    return ended(results, status=1, complaints=(ReportedFailure("t", "call", "no"), ReportedFailure("t", when, "no")))


RED: dict[str, Attack] = {
    "a verified record of a part that the plan lacks": lambda p, a: more(a, record("b", "suite 9")),
    "a failed record without a part": lambda p, a: more(a, record("a", "", BAD)),
    "a failed record of the audit of another plan": lambda p, a: more(a, record("a", "suite 9" + AUDIT, BAD)),
    "a known defect that pytest calls failed": lambda p, a: ended(
        night(p, record("a", kind=BAD, defect="x")), status=1, complaints=failures("a")
    ),
    "a skipped test that pytest calls failed": lambda p, a: ended(
        night(p, record("b"), skipped("a")), status=1, complaints=failures("a")
    ),
    "a verified test that pytest calls failed": lambda p, a: ended(a, status=1, complaints=failures("a")),
    "a failed set-up of a failed test": lambda p, a: ended(a, status=1, complaints=failures("a", when="setup")),
    "a failed teardown": lambda p, a: ended(a, status=1, complaints=failures("a", when="teardown")),
    "a crash of what is verified": lambda p, a: ended(a, complaints=failures("a", when="crash")),
    "a file that is not collected": lambda p, a: ended(a, complaints=failures("f.py", when="collect")),
    "status 1 and no word": lambda p, a: ended(a, status=1),
    "status 2": lambda p, a: ended(a, status=2),
    "a negative status": lambda p, a: ended(a, status=-9),
    "a status of no tests, with a test": lambda p, a: chosen(ended(night(p), status=5), tests=(Selected("a"),)),
    "a file that skipped itself": lambda p, a: ended(a, unseen=("f.py: no torch",)),
    "a session of another part only": lambda p, a: ended(a, part="suite 9"),
    "a session of a shard only": lambda p, a: ended(a, shard="1/2"),
    "a session of a second attempt only": lambda p, a: ended(a, attempt=2),
    "a selection of another part": lambda p, a: chosen(a, part="suite 9"),
    "a selection of a shard": lambda p, a: chosen(a, shard="1/2"),
    "no selection": lambda p, a: replace(a, selections=()),
    "no session": lambda p, a: replace(a, sessions=()),
    "no record": lambda p, a: replace(a, records=()),
    "a selection that is emptied": lambda p, a: chosen(a, tests=()),
    "a function that did not run": lambda p, a: chosen(a, functions=("f.py::test_x[1]",)),
    "one of two ids of a function": lambda p, a: ended(
        chosen(a, functions=("f::t[1]", "f::t[2]")), ran=frozenset({"f::t[1]"})
    ),
    "only functions, all skipped": lambda p, a: ended(
        chosen(night(p), functions=("f::t",)), ran=frozenset({"f::t"}), idle=frozenset({"f::t"})
    ),
    "nothing chosen": lambda p, a: night(p),
    "a folder without a test": lambda p, a: chosen(a, left_out=LeftOut(barren=("b",))),
    "only compiled tests": lambda p, a: night(p, record("a", verdict=Verdict.COMPILED_ONLY)),
    "only skipped tests": lambda p, a: night(p, skipped("a"), skipped("b")),
    "a line that cannot be read": lambda p, a: replace(a, skipped=(Skipped("r", "cut"),)),
    "failed, then verified, attempts forged": lambda p, a: night(p, record("a", kind=BAD), record("a", attempt=99)),
    "failed in attempt -1": lambda p, a: night(p, record("a", kind=BAD, attempt=-1), record("a")),
    "failed on another NPU": lambda p, a: night(p, record("a", kind=BAD, npu="ethos-u85-256"), record("a")),
    "failed in another shard's record": lambda p, a: night(p, record("a", kind=BAD, shard="3/4"), record("a")),
    "link twice": lambda p, a: night(p, record("a", kind=LINK), record("a", kind=LINK, attempt=2)),
    "a record of an audit that was chosen and lost": lambda p, a: chosen(a, part=PART + AUDIT),
    "an audit that could not run": lambda p, a: more(audited(a), record("a", PART + AUDIT, FailureKind.TIMEOUT)),
    "unverified": lambda p, a: night(p, record("a", verdict=Verdict.UNVERIFIED, kind=FailureKind.NO_REFERENCE)),
    "a function of the name of a verified test": lambda p, a: ended(
        night(p, record("a.py::t")), status=1, complaints=failures("b.py::t")
    ),
    "one of two records lost": lambda p, a: replace(night(p, record("a"), record("b")), records=(record("a"),)),
    "a test that a mark skipped": lambda p, a: ended(
        replace(night(p, record("a"), record("b")), records=(record("a"),)), ran=frozenset({"b"})
    ),
    "a record of what was not chosen": lambda p, a: chosen(night(p, record("a"), record("b")), tests=(Selected("a"),)),
    "an audit of which all is lost": lambda p, a: with_audit(a),
    "an audit without an end": lambda p, a: more(with_audit(a), record("a", PART + AUDIT)),
    "one of each verdict": lambda p, a: night(
        p,
        *(record("a"), skipped("b"), record("c", kind=FailureKind.DELEGATION, defect="https://example.org")),
        *(record("d", kind=BAD), record("e", verdict=Verdict.UNVERIFIED, kind=FailureKind.NO_REFERENCE)),
    ),
    # It ran again when the night was resumed: of one plan and state that is two answers to one question.
    "failed, then verified": lambda p, a: night(p, record("t", kind=BAD), record("t")),
    "a failure that pytest tells, too": lambda p, a: complained(night(p, record("t", kind=BAD))),
    "a failure, and one of its teardown": lambda p, a: complained(night(p, record("t", kind=BAD)), "teardown"),
}
BOTH = frozenset({"f::a", "f::b"})
LEFT_OUT = LeftOut(("f::test_a", "f::test_b", "f::test_c", "f::test_d"), ("g::test_e_MI",), 7)
GREEN: dict[str, Attack] = {
    "all verified": lambda p, a: night(p, record("a"), record("b")),
    "a second attempt": lambda p, a: night(p, record("t", kind=LINK), record("t", attempt=2)),
    "a second attempt first": lambda p, a: night(p, record("t", attempt=2), record("t", kind=LINK)),
    "an audit": lambda p, a: more(audited(a), record("a", PART + AUDIT)),
    "functions that ran": lambda p, a: ended(
        chosen(night(p), functions=tuple(sorted(BOTH))), ran=BOTH, idle=frozenset({"f::b"})
    ),
    "tests that were left out in three shards": lambda p, a: replace(
        a, selections=chosen(a, left_out=LEFT_OUT).selections * 3
    ),
    "a function that ran beside a test": lambda p, a: ended(
        chosen(a, functions=("t.py::f",)), ran=frozenset({"t.py::f"})
    ),
}
NIGHTS = RED | GREEN


@pytest.fixture
def plan(tmp_path: Path) -> NightlyPlan:
    return plan_of(read_config(write(tmp_path, TEXT)))


@pytest.mark.parametrize("what", NIGHTS)
def test_a_night_is_judged(plan: NightlyPlan, what: str, recorded: Recorded) -> None:
    account = judged(plan, NIGHTS[what](plan, night(plan, record("a"))))
    assert account.green == (what in GREEN)
    recorded.check(night_in_lines(account))


def test_a_quarantine_of_one_case_does_not_allow_changes_of_another_case_of_its_model() -> None:
    subject = Subject("m", "ethos-u55-128", "", "", "virtual", "corstone-300", "", "forward", case="two")
    why = next(iter(Cause))
    change = Change(Word.REGRESSED, subject, "npu_cycles", "modelled", "cycles", 1, 2, why, "", Effect.FAIL)
    first, second = (
        replace(record(""), test=None, model="m", bench=BenchInfo("g", case, "")) for case in ("one", "two")
    )
    account = Account((Accounted(Standing.QUARANTINED, record=first), Accounted(Standing.VERIFIED, record=second)))
    assert account.with_comparison(RunComparison("a", "b", (change,), {}, 1)).failing == (change,)


def test_a_point_that_lacks_something_is_refused_where_a_test_is_skipped() -> None:
    lacking = record("", verdict=Verdict.SKIPPED, kind=FailureKind.NOT_AVAILABLE)
    point = replace(lacking, test=None, model="m", bench=BenchInfo("g", "one", ""))
    assert [standing_of(lacking), standing_of(point)] == [Standing.SKIPPED, Standing.REFUSED]


ENTRY = Quarantined("t*", BAD, "why", "issue", "ada", today())
FAULT, STATE = FailureKind.FAULT, FailureKind.STATE
IN_QUARANTINE: dict[str, tuple[Callable[[NightlyPlan], RunResults], *tuple[dict[str, Any], ...]]] = {
    "a failure of its kind": (lambda p: night(p, record("t", kind=BAD)),),
    "a failure of its kind that pytest tells, too": (lambda p: complained(night(p, record("t", kind=BAD))),),
    "a failure of its kind, and one of its teardown": (
        lambda p: complained(night(p, record("t", kind=BAD)), "teardown"),
    ),
    "verified": (lambda p: night(p, record("t"), record("u")),),
    "a failure of another kind": (lambda p: night(p, record("t", kind=FAULT), record("u")),),
    "unverified": (lambda p: night(p, record("t", verdict=Verdict.UNVERIFIED, kind=BAD)),),
    "skipped": (lambda p: night(p, record("t", verdict=Verdict.SKIPPED, kind=BAD), record("u")),),
    "only compiled": (lambda p: night(p, record("t", verdict=Verdict.COMPILED_ONLY), record("u")),),
    "missing": (lambda p: replace(night(p, record("t"), record("u")), records=(record("u"),)),),
    "no test": (lambda p: night(p, record("a")),),
    "another case": (lambda p: night(p, record("t", kind=BAD)), {"id": "T"}),
    "another NPU": (lambda p: night(p, record("t", kind=BAD)), {"npu": "ethos-u85*"}),
    "another target": (lambda p: night(p, record("t", kind=BAD)), {"target": "board:*"}),
    "a bracket is not a set": (lambda p: night(p, record("ta", kind=BAD)), {"id": "t[ab]"}),
    "a bracket is a bracket": (lambda p: night(p, record("t[a]", kind=BAD)), {"id": "t[*]", "npu": "ethos-u?5-*"}),
    "expired": (lambda p: night(p, record("t", kind=BAD)), {"expires": today() - timedelta(1)}),
    # It is known by its part.
    "a failure before its target": (lambda p: night(p, record("t", kind=BAD, target="none")), {"target": "virtual"}),
    "three kinds, of which two are in it": (
        lambda p: night(p, record("t1", kind=BAD), record("t2", kind=FAULT), record("t3", kind=STATE)),
        {},
        {"kind": FAULT},
    ),
}


@pytest.mark.parametrize("what", IN_QUARANTINE)
def test_quarantine_swallows_one_kind_of_failure_and_nothing_else(
    plan: NightlyPlan, what: str, recorded: Recorded
) -> None:
    """It lasts through its last day."""
    ask, *changes = IN_QUARANTINE[what]
    entries = [replace(ENTRY, **change) for change in changes or [{}]]
    told_now = night_in_lines(judged(plan, ask(plan), *entries))
    recorded.check(told_now.replace(str(entries[0].expires), "[last day]"))


def test_where_the_target_is_down_nothing_is_judged(plan: NightlyPlan, recorded: Recorded) -> None:
    results = night(plan, record("t", kind=LINK))
    recorded.check(night_in_lines(account_of_night(plan, results, Conducted({"virtual": "no QEMU"}), (), today())))


def test_a_model_without_a_record_is_missing_in_its_shard_only(tmp_path: Path) -> None:
    plan = plan_of(read_config(write(tmp_path, '[[model]]\nmodel = "net.py:net"\n')))
    assert [test.standing for test in judged(plan, night(plan)).tests] == [Standing.MISSING]
    shards = [Shard(number, 2) for number in (1, 2)]
    sides = [judged(plan, night(plan, shard=shard), shards=(shard,)).tests for shard in shards]
    assert sorted(map(len, sides)) == [0, 1]


def test_a_suite_that_chose_nothing_is_green_where_its_plan_says_so(tmp_path: Path) -> None:
    plan = plan_of(read_config(write(tmp_path, TEXT + "may_be_empty = true\n")))
    assert judged(plan, night(plan)).green
