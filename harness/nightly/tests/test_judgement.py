"""What is red and what is not: verdicts, quarantine, lost tests, repeats."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ethos_hil.harness.nightly.conduct import AUDIT, Conducted, final, to_repeat
from ethos_hil.harness.nightly.config import read_config
from ethos_hil.harness.nightly.judgement import MISSING, Judgement, judge
from ethos_hil.harness.nightly.outcome import NightOutcome
from ethos_hil.harness.nightly.plan import NightlyPlan, plan_of
from ethos_hil.harness.nightly.quarantine import Quarantined, today
from ethos_hil.harness.nightly.shard import Shard
from ethos_hil.harness.nightly.tests.plans import record, write
from ethos_hil.results.record import Record
from ethos_hil.results.verdict import FailureKind, Verdict
from ethos_hil.results.verdict_letter import QUARANTINED

TEXT = '[run]\nknown_model = "net.py:net"\n[[suite]]\npaths = ["test_plus.py"]\n'
ENTRY = Quarantined("t*", FailureKind.MISMATCH, "why", "issue", "ada", today())


@pytest.fixture
def plan(tmp_path: Path) -> NightlyPlan:
    return plan_of(read_config(write(tmp_path, TEXT)))


def judged(plan: NightlyPlan, *records: Record, quarantine: tuple[Quarantined, ...] = (), **rest: object) -> Judgement:
    return judge(plan, records, Conducted(**rest), quarantine, today())  # type: ignore[arg-type]


def outcome(judgement: Judgement) -> NightOutcome:
    return NightOutcome("r", "", (), False, judgement, None, (), {})


def test_only_what_failed_or_is_unverified_is_red(plan: NightlyPlan) -> None:
    found = judged(
        plan,
        record("a"),
        record("b", verdict=Verdict.SKIPPED, kind=FailureKind.CAPABILITY),
        record("c", kind=FailureKind.DELEGATION, defect="https://example.org"),
        record("d", kind=FailureKind.MISMATCH),
        record("e", verdict=Verdict.UNVERIFIED, kind=FailureKind.NO_REFERENCE),
    )
    assert "".join(test.letter for test in found.tests) == "VSDFU"
    assert {test.name: test.red for test in found.red} == {
        "d": "mismatch: what mismatch says",
        "e": "no-reference: what no-reference says",
    }
    assert (outcome(found).status, len(outcome(found).red)) == (1, 2)
    assert outcome(found).sentence == "r: 1 verified, 1 skipped, 1 known defect, 1 failed, 1 unverified; red: 2"


def test_what_is_in_quarantine_is_not_red_until_it_is_fixed(plan: NightlyPlan) -> None:
    failing = judged(plan, record("t", kind=FailureKind.MISMATCH), quarantine=(ENTRY,))
    assert [(test.letter, test.ending, test.red) for test in failing.tests] == [("Q", QUARANTINED, "")]
    assert failing.allowed == {("t", "ethos-u55-128", "virtual")}
    assert outcome(failing).status == 0
    fixed = judged(plan, record("t"), quarantine=(ENTRY,))
    assert fixed.tests[0].red.startswith("fixed: ")
    assert (fixed.allowed, outcome(fixed).status) == (frozenset(), 1)
    otherwise = judged(plan, record("t", kind=FailureKind.FAULT), quarantine=(ENTRY,))
    assert (otherwise.tests[0].letter, outcome(otherwise).status) == ("F", 1)
    late = judge(plan, [record("t", kind=FailureKind.MISMATCH)], Conducted(), (ENTRY,), today() + timedelta(1))
    assert late.tests[0].red.startswith("its quarantine expired")


def test_a_quarantine_of_no_test_is_noted(plan: NightlyPlan) -> None:
    found = judged(plan, record("a"), quarantine=(ENTRY,))
    assert found.notes == ("in quarantine, and not among the tests: t*",)
    assert outcome(found).status == 0


def test_a_test_that_stopped_before_its_target_is_known_by_its_parts(plan: NightlyPlan) -> None:
    lost = record("t", kind=FailureKind.MISMATCH, target="none")
    entry = Quarantined(**{**vars(ENTRY), "target": "virtual"})
    assert judged(plan, lost, quarantine=(entry,)).tests[0].letter == "Q"


def test_the_last_attempt_counts(plan: NightlyPlan) -> None:
    first = record("t", kind=FailureKind.LINK)
    second = record("t", attempt=2)
    for records in ((first, second), (second, first)):
        assert final(records) == [second]
        assert judged(plan, *records).tests[0].letter == "V"


def test_only_what_could_not_be_tried_is_repeated_once_and_never_on_a_virtual_board() -> None:
    records = [record(str(kind), kind=kind) for kind in FailureKind] + [record("verified")]
    wanted = {"not-launched", "timeout", "link", "licence", "probe", "readback", "lost-board", "leased"}
    assert set(to_repeat(records, "fvp")) == set(to_repeat(records, "board")) == wanted
    assert to_repeat(records, "virtual") == []
    again = [record(name, kind=FailureKind.LINK, attempt=2) for name in wanted]
    assert to_repeat([*records, *again], "board") == []


def test_second_runs_of_the_audit_are_no_tests(plan: NightlyPlan) -> None:
    assert len(judged(plan, record("t"), record("t", "suite 1: virtual" + AUDIT)).tests) == 1


def test_a_session_that_was_cut_or_a_function_that_failed_is_red(plan: NightlyPlan) -> None:
    found = judged(plan, problems={"suite 1: virtual": "pytest ended with status 3"},
                   functions={"suite 1: virtual": ("test_x.test_y_BI",)})  # fmt: skip
    assert outcome(found).red == (
        "suite 1: virtual: pytest ended with status 3",
        "suite 1: virtual: test_x.test_y_BI failed",
    )


def test_where_the_target_is_down_nothing_is_judged(plan: NightlyPlan) -> None:
    found = judged(plan, record("t", kind=FailureKind.LINK), down={"virtual": "no QEMU"})
    assert (found.tests, outcome(found).status) == ((), 3)
    assert outcome(found).sentence == "r: nothing ran; not run, because of their target: virtual; infrastructure"


def test_a_model_without_a_record_is_missing_in_its_shard_only(tmp_path: Path) -> None:
    plan = plan_of(read_config(write(tmp_path, '[[model]]\nmodel = "net.py:net"\n')))
    assert [test.ending for test in judged(plan).tests] == [MISSING]
    sides = [judge(plan, [], Conducted(), (), today(), (Shard(number, 2),)).tests for number in (1, 2)]
    assert sorted(map(len, sides)) == [0, 1]
