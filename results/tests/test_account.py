"""An account of a run without a plan: attempts at one test are one test, and others are not."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from ethos_hil.base.judge import Quarantined
from ethos_hil.base.record import BenchInfo, Record, RunInfo, TargetInfo
from ethos_hil.base.verdict import NOT_ATTEMPTED, Failure, FailureKind, Standing, Verdict
from ethos_hil.results.gate.account import AUDIT, Account, Problem, attempt_of, take_account
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import ReportedFailure, Selected, Selection, SessionEnd
from ethos_hil.results.testing.seeded_changes import with_models
from ethos_hil.results.testing.synthetic_year import nights

NIGHT: list[Record] = with_models([item.record for item in next(nights(1, count=1, tests=12))])
ONE = NIGHT[0]


def early(record: Record, kind: FailureKind = FailureKind.COMPILE) -> Record:
    """The record of an attempt that ended before anything had a place."""
    failure = Failure(kind, "no")
    return replace(
        record, verdict=Verdict.FAILED, failure=failure, artifact=None, memory_mode="", system_config="", metrics=(),
        method="", inputs_sha256="", run=RunInfo("again", attempt=2),
    )  # fmt: skip


def stands(*records: Record) -> list[Standing]:
    return [test.standing for test in take_account(RunResults("run", "", records)).tests]


def test_what_stopped_before_it_had_a_place_is_an_attempt_at_the_only_test_of_its_name() -> None:
    assert stands(ONE, early(ONE)) == [Standing.FAILED]
    assert stands(ONE, early(ONE, FailureKind.LINK)) == [Standing.VERIFIED]


def test_where_there_are_two_it_is_a_test_of_its_own() -> None:
    elsewhere = replace(ONE, memory_mode="Sram_Only" if ONE.memory_mode != "Sram_Only" else "Shared_Sram")
    assert stands(ONE, elsewhere, early(ONE)) == [Standing.VERIFIED, Standing.VERIFIED, Standing.FAILED]


def test_another_npu_is_another_test() -> None:
    other = replace(early(ONE), npu="ethos-u85-2048" if ONE.npu != "ethos-u85-2048" else "ethos-u55-32")
    assert stands(ONE, other) == [Standing.VERIFIED, Standing.FAILED]


REFUSED = {FailureKind.NOT_AVAILABLE: True, FailureKind.LICENCE: True, FailureKind.USAGE: True,
           FailureKind.COMPILE: False, FailureKind.CAPABILITY: False}  # fmt: skip
"""Kinds of a refused point, and whether a night is red for it: a tool or a name is missing."""


@pytest.mark.parametrize("part", ["sweep: net", ""])
@pytest.mark.parametrize("kind", REFUSED)
def test_a_point_that_was_refused_is_red_in_a_night_where_the_point_is_not_to_blame(
    kind: FailureKind, part: str
) -> None:
    point = replace(early(ONE, kind), test=None, bench=BenchInfo("grid", "net", "net"), run=RunInfo("r", part=part))
    (test,) = take_account(RunResults("run", "", (point,))).tests
    assert test.standing is Standing.REFUSED
    assert test.red == (f"{kind}: no" if part and REFUSED[kind] else "")


def test_a_known_defect_has_its_reason_and_nothing_else_has() -> None:
    assert ONE.test is not None
    declared = replace(ONE, test=replace(ONE.test, defect="vela-x"))
    for record, reason in ((early(declared), "vela-x"), (declared, ""), (early(ONE), ""), (NIGHT[-1], "")):
        (test,) = take_account(RunResults("run", "", (record,))).tests
        assert test.reason == reason


def test_what_needs_no_npu_and_what_failed_late_have_a_place_too() -> None:
    """Else an early failure of theirs is a second test, and a night that was repaired stays red."""
    on_cpu = replace(ONE, npu="", memory_mode="", system_config="")
    assert stands(on_cpu, early(on_cpu, FailureKind.LINK)) == [Standing.VERIFIED]
    wrong = replace(ONE, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "1 of 4"))
    assert stands(wrong, early(ONE, FailureKind.LINK)) == [Standing.FAILED]


def test_of_attempts_that_could_not_be_made_the_last_counts_and_the_others_were_spoilt() -> None:
    first, second, third = (
        replace(early(ONE, kind), run=RunInfo("night", attempt=at))
        for at, kind in enumerate((FailureKind.LINK, FailureKind.PROBE, FailureKind.TIMEOUT), start=1)
    )
    (test,) = take_account(RunResults("run", "", (third, first, second))).tests
    assert (test.record, test.spoilt, test.attempts) == (third, (first, second), 3)
    last = replace(ONE, run=RunInfo("night", attempt=3))
    (test,) = take_account(RunResults("run", "", (first, last, second))).tests
    assert (test.record, test.spoilt) == (last, (first, second))


@pytest.mark.parametrize("kind", list(FailureKind))
def test_an_attempt_that_the_target_has_spoilt_counts_only_where_none_follows(kind: FailureKind) -> None:
    wrong = replace(ONE, verdict=Verdict.FAILED, failure=Failure(kind, "no"))
    first, second, last = (
        replace(record, run=RunInfo("run", attempt=at)) for at, record in enumerate((wrong, wrong, ONE), start=1)
    )
    (test,) = take_account(RunResults("run", "", (last, first, second))).tests
    assert (test.record, test.spoilt) == ((last, (first, second)) if kind in NOT_ATTEMPTED else (second, ()))


def test_attempts_are_those_of_one_shard() -> None:
    """Each shard runs the model that is known to be right: two shards are not two attempts."""
    runs = [RunInfo("night", shard=shard, attempt=at) for shard, at in (("1/2", 1), ("1/2", 2), ("2/2", 1))]
    (test,) = take_account(RunResults("run", "", tuple(replace(ONE, run=run) for run in runs))).tests
    assert test.attempts == 2
    (test,) = take_account(RunResults("run", "", (replace(ONE, run=None),) * 3)).tests
    assert test.attempts == 3, "an earlier version does not say which shard it was"
    assert (attempt_of(replace(ONE, run=None)), attempt_of(replace(ONE, run=runs[1]))) == (1, 2)


def ended(*chosen: Selected, ends: tuple[SessionEnd, ...] = (), records: tuple[Record, ...] = ()) -> Account:
    """The account of a run that chose tests, with how its sessions ended."""
    return take_account(RunResults("run", "", records, selections=(Selection("", tests=chosen),), sessions=ends))


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (Selected("t::test_add_wide_BI", "add", "wide", "BI", "ethos-u55-128", "virtual"),
         "M t::test_add_wide_BI on virtual ethos-u55-128"),
        (Selected("t::test_add_wide_BI", "add", "wide", "BI"), "M t::test_add_wide_BI on none"),
        (Selected("nets/net.py"), "M nets/net.py on none"),
    ],
)  # fmt: skip
def test_what_has_no_record_is_told_by_what_was_chosen(chosen: Selected, sentence: str) -> None:
    """It was tried once: it is not called flaky."""
    (test,) = ended(chosen).tests
    assert (test.standing, test.attempts, test.spoilt) == (Standing.MISSING, 1, ())
    message = "it was chosen and has no record: it did not run, or what ran it ended before there was one"
    assert test.sentence == f"{sentence}: internal: {message}"
    model = f"{chosen.operator}_{chosen.case}" if chosen.operator else chosen.id
    assert test.record.model == model


def test_what_has_no_record_is_told_by_its_models_and_parts_target() -> None:
    def target(npu: str, parts: dict[str, str] | None) -> tuple[str, str]:
        selection = Selection("ops", tests=(Selected("a::b", "conv2d", npu=npu),))
        (test,) = take_account(RunResults("run", "", (), selections=(selection,)), parts=parts).tests
        return test.record.model, test.record.target.name

    assert target("ethos-u55-128", {"ops": "my-board"}) == ("conv2d", "my-board")
    assert target("", {"ops": "my-board"}) == target("ethos-u55-128", None) == ("conv2d", "none")


def test_how_a_test_came_to_have_no_record_is_told_where_pytest_says_so() -> None:
    first, second, third = Selected("t::one"), Selected("t::two"), Selected("t::three")
    crash, failed = ReportedFailure("t::one", "crash", "killed by 9"), ReportedFailure("t::two", "call", "no")
    ends = (SessionEnd("", 1, 1, (failed, crash)), SessionEnd("", 2, 0, ran=frozenset({"t::three"})))
    account = ended(first, second, third, ends=ends)
    how = {test.name: test.red.partition("has no record: ")[2] for test in account.tests}
    assert how == {
        "t::one": "killed by 9",
        "t::two": "it did not run, or what ran it ended before there was one",
        "t::three": "a mark or a hook of pytest skipped it",
    }
    assert account.problems == ()


@pytest.mark.parametrize(("when", "whole"), [("call", True), ("teardown", True), ("collect", False), ("crash", False)])
def test_a_complaint_leaves_a_gap_where_tests_may_be_lost_by_it(when: str, whole: bool) -> None:
    account = ended(ends=(SessionEnd("", 1, 1, (ReportedFailure("t::one", when, "no"),)),))
    assert (account.whole, account.green) == (whole, False)


def test_an_audited_test_needs_one_answer_of_its_second_run() -> None:
    """Whatever it is: a wrong one is compared with the first."""
    part = f"ops{AUDIT}"
    runs = [RunInfo("r", attempt=at, part=part) for at in (1, 2)]
    failures = [Failure(FailureKind.LINK, "cut"), Failure(FailureKind.PROBE, "gone")]
    lost = [replace(ONE, verdict=Verdict.FAILED, failure=why, run=run) for why, run in zip(failures, runs, strict=True)]
    wrong = replace(lost[1], failure=Failure(FailureKind.MISMATCH, "1 of 4"))
    right = replace(ONE, run=runs[1])
    selection = Selection(part, tests=(Selected(ONE.name, "a"),))

    def problems(*records: Record) -> list[str]:
        results = RunResults("run", "", records, selections=(selection,))
        return [problem.text for problem in take_account(results).problems]

    assert problems() == [f"{part}: {ONE.name} was chosen and has no record"]
    assert problems(*lost) == [f"{part}: {ONE.name} could not run a second time: probe: gone"]
    assert problems(lost[0], wrong) == problems(lost[0], right) == problems(right) == []


def test_a_quarantine_of_a_target_is_about_what_ran_there() -> None:
    """A record knows best where it ran; only one that stopped before takes its part's target."""
    wrong = replace(
        ONE, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "no"), run=RunInfo("r", part="p")
    )
    early_one = replace(wrong, target=TargetInfo("none", "none", ""))
    entry = Quarantined(ONE.name, FailureKind.MISMATCH, "flaky", "issue/9", "ada", date(2026, 12, 1), target="board")

    def standing(record: Record, parts: dict[str, str] | None) -> Standing:
        account = take_account(RunResults("r", "", (record,)), parts=parts, quarantine=[entry], today=date(2026, 11, 1))
        (test,) = account.tests
        return test.standing

    assert standing(early_one, {"p": "board"}) is Standing.QUARANTINED
    assert standing(wrong, {"p": "board"}) is standing(early_one, {"p": "virtual"}) is Standing.FAILED
    assert standing(early_one, None) is Standing.FAILED


def test_a_run_is_green_only_if_its_targets_were_up_and_nothing_is_red() -> None:
    red, loud = Account((), (Problem("a shard is missing"),)), Account((), (Problem("not so bad", gap=False),))
    down = Account((), down={"board": "no probe"})
    assert [account.green for account in (Account(()), red, loud, down)] == [True, False, False, False]
    assert [account.whole for account in (Account(()), red, loud, down)] == [True, False, True, False]
    assert [account.colour for account in (Account(()), red, down)] == ["green", "red: 1", "infrastructure"]
    assert down.beside == ("board could not be used: no probe",)
    assert Account((), functions=3).sentence == "test functions without a record: 3; green"
    assert Account(()).sentence == "nothing ran; green"


def test_the_gate_fails_for_all_but_what_is_in_quarantine() -> None:
    """Neither more nor less: one entry hides nothing of the other tests."""
    flaky, other = NIGHT[0], NIGHT[1]
    failed = [
        replace(record, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "no"))
        for record in (flaky, other)
    ]
    entry = Quarantined(flaky.name, FailureKind.MISMATCH, "flaky", "issue/9", "ada", date(2026, 12, 1))
    account = take_account(RunResults("run", "", tuple(failed)), quarantine=[entry], today=date(2026, 11, 1))
    changed = compare_runs(observations([flaky, other]), observations(failed), names=("monday", "tuesday"))
    assert len(changed.failing) == 2
    result = account.with_comparison(changed, observations(failed))
    assert [change.subject.label for change in result.failing] == [other.label]
    assert result.sentence == "1 quarantined, 1 failed; the gate fails for 1 against monday; red: 2"
    assert result.red[-1].startswith(
        f"regressed: {other.label} {other.npu}: verdict verified became failed: mismatch: "
    )
    quiet = compare_runs(observations([flaky]), observations([flaky]), names=("monday", "tuesday"))
    single = take_account(RunResults("run", "", (flaky,)))
    assert single.with_comparison(quiet).sentence == "1 verified; the gate passes against monday; green"
    assert single.with_comparison(None).sentence == "1 verified; green"
    twice = observations([flaky, failed[0]])
    assert single.with_comparison(None, twice).beside == (
        f"{flaky.label} (verdict) differs between two executions of this run",
    )
