"""An account of a run without a plan: attempts at one test are one test, and others are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from ethos_hil.base.judge import Quarantined
from ethos_hil.base.record import BenchInfo, Record, RunInfo, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import NOT_ATTEMPTED, Failure, FailureKind, Verdict
from ethos_hil.results.gate.account import AUDIT, Account, Problem, take_account
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.selection import ReportedFailure, Selected, Selection, SessionEnd
from ethos_hil.results.testing.in_lines import lines_of_account
from ethos_hil.results.testing.seeded_changes import with_models
from ethos_hil.results.testing.synthetic_year import nights

NIGHT: list[Record] = with_models([item.record for item in next(nights(1, count=1, tests=12))])
ONE = NIGHT[0]
assert ONE.test is not None


def failed(record: Record, kind: FailureKind = FailureKind.MISMATCH, **changes: Any) -> Record:
    return replace(record, verdict=Verdict.FAILED, failure=Failure(kind, "no"), **changes)


def early(record: Record, kind: FailureKind = FailureKind.COMPILE) -> Record:
    """The record of an attempt that ended before anything had a place."""
    return failed(record, kind, artifact=None, memory_mode="", system_config="", metrics=(), method="",
                  inputs_sha256="", run=RunInfo("again", attempt=2))  # fmt: skip


def attempts(*records: Record, part: str = "") -> tuple[Record, ...]:
    """The records as those of attempts, one after another."""
    runs = (RunInfo("run", attempt=at, part=part) for at in range(1, len(records) + 1))
    return tuple(replace(record, run=run) for record, run in zip(records, runs, strict=True))


ON_CPU = replace(ONE, npu="", memory_mode="", system_config="")
DECLARED = replace(ONE, test=replace(ONE.test, defect="vela-x"))
LOST = attempts(*(early(ONE, kind) for kind in (FailureKind.LINK, FailureKind.PROBE, FailureKind.TIMEOUT)))
SHARDS = tuple(replace(ONE, run=RunInfo("night", shard=shard, attempt=at))
               for shard, at in (("1/2", 1), ("1/2", 2), ("2/2", 1)))  # fmt: skip
RECORDS: dict[str, Sequence[Record]] = {
    "what stopped early is an attempt at the only test of its name": (ONE, early(ONE)),
    "what was lost early counts for nothing": (ONE, early(ONE, FailureKind.LINK)),
    "where there are two it is a test of its own": (ONE, replace(ONE, memory_mode="Sram_Only"), early(ONE)),
    "another NPU is another test": (ONE, replace(early(ONE), npu="ethos-u85-2048")),
    "a known defect": (early(DECLARED),),
    "a known defect that is not met": (DECLARED,),
    "no defect": (early(ONE),),
    "no test": (NIGHT[-1],),
    "what needs no NPU has a place": (ON_CPU, early(ON_CPU, FailureKind.LINK)),
    "what failed late has a place": (failed(ONE), early(ONE, FailureKind.LINK)),
    "of lost attempts the last counts": (LOST[2], LOST[0], LOST[1]),
    "after lost attempts a right one counts": (LOST[0], replace(ONE, run=RunInfo("night", attempt=3)), LOST[1]),
    "attempts are those of one shard": SHARDS,
    "an earlier version has no shards": (replace(ONE, run=None),) * 3,
}


@pytest.mark.parametrize("what", RECORDS)
def test_attempts_at_one_test_are_one_test(what: str, recorded: Recorded) -> None:
    recorded.check(lines_of_account(take_account(RunResults("run", "", tuple(RECORDS[what])))))


@pytest.mark.parametrize("kind", list(FailureKind))
def test_an_attempt_that_the_target_has_spoilt_counts_only_where_none_follows(kind: FailureKind) -> None:
    first, second, last = attempts(failed(ONE, kind), failed(ONE, kind), ONE)
    (test,) = take_account(RunResults("run", "", (last, first, second))).tests
    assert (test.record, test.spoilt) == ((last, (first, second)) if kind in NOT_ATTEMPTED else (second, ()))


REFUSED = ("not-available", "licence", "usage", "compile", "capability")


@pytest.mark.parametrize("part", ["sweep: net", ""])
def test_a_refused_point_is_red_in_a_night_where_the_point_is_not_to_blame(part: str, recorded: Recorded) -> None:
    """A tool or a name is missing."""
    point = replace(ONE, test=None, bench=BenchInfo("grid", "net", "net"))
    points = (replace(early(point, FailureKind(kind)), run=RunInfo("r", part=part)) for kind in REFUSED)
    recorded.check("\n".join(lines_of_account(take_account(RunResults("run", "", (point,)))) for point in points))


CHOSEN = tuple(map(Selected, ("t::one", "t::two", "t::three")))
CRASH, NO = ReportedFailure("t::one", "crash", "killed by 9"), ReportedFailure("t::two", "call", "no")
ENDS = (SessionEnd("", 1, 1, (NO, CRASH)), SessionEnd("", 2, 0, ran=frozenset({"t::three"})))
ADD = ("t::test_add_wide_BI", "add", "wide", "BI")
SELECTED: dict[str, tuple[Selection, tuple[SessionEnd, ...], dict[str, str] | None]] = {
    "a test of a target": (Selection("", tests=(Selected(*ADD, "ethos-u55-128", "virtual"),)), (), None),
    "a test": (Selection("", tests=(Selected(*ADD),)), (), None),
    "a model": (Selection("", tests=(Selected("nets/net.py"),)), (), None),
    "a part's target":
        (Selection("ops", tests=(Selected("a::b", "conv2d", npu="ethos-u55-128"),)), (), {"ops": "my-board"}),
    "no NPU, no target": (Selection("ops", tests=(Selected("a::b", "conv2d"),)), (), {"ops": "my-board"}),
    "what pytest says of it": (Selection("", tests=CHOSEN), ENDS, None),
    "functions of pytest, one of which ran elsewhere": (
        Selection("ops", functions=("f::ran", "f::idle", "f::lost"), shard="1/2"),
        (SessionEnd("ops", 1, 0, ran=frozenset({"f::ran", "f::idle"}), shard="1/2", idle=frozenset({"f::idle"})),
         SessionEnd("ops", 1, 0, ran=frozenset({"f::lost"}), shard="2/2")),
        None,
    ),
    **{
        f"a complaint of {when}": (Selection(""), (SessionEnd("", 1, 1, (replace(CRASH, when=when),)),), None)
        for when in ("call", "teardown", "collect", "crash")
    },
}  # fmt: skip


@pytest.mark.parametrize("what", SELECTED)
def test_what_has_no_record_is_told_by_what_was_chosen_and_how_its_session_ended(what: str, recorded: Recorded) -> None:
    """A complaint leaves a gap where tests may be lost by it."""
    selection, ends, parts = SELECTED[what]
    recorded.check(
        lines_of_account(take_account(RunResults("run", "", (), selections=(selection,), sessions=ends), parts=parts))
    )


def test_an_audited_test_needs_one_answer_of_its_second_run(recorded: Recorded) -> None:
    """Whatever it is: a wrong one is compared with the first."""
    part = f"ops{AUDIT}"
    lost = attempts(failed(ONE, FailureKind.LINK), failed(ONE, FailureKind.PROBE), part=part)
    wrong, right = (replace(record, run=lost[1].run) for record in (failed(ONE), ONE))
    selection = Selection(part, tests=(Selected(ONE.name, "a"),))
    runs = ((), lost, (lost[0], wrong), (lost[0], right), (right,))
    accounts = (take_account(RunResults("run", "", run, selections=(selection,))) for run in runs)
    recorded.check("\n".join(map(lines_of_account, accounts)))


def quarantined(record: Record, **of: Any) -> Quarantined:
    return Quarantined(record.name, FailureKind.MISMATCH, "flaky", "issue/9", "ada", date(2026, 12, 1), **of)


def test_a_quarantine_of_a_target_is_about_what_ran_there(recorded: Recorded) -> None:
    """A record knows best where it ran; only one that stopped before takes its part's target."""
    wrong = failed(ONE, run=RunInfo("r", part="p"))
    nowhere = replace(wrong, target=TargetInfo("none", "none", ""))
    entry = quarantined(ONE, target="board")
    runs = ((nowhere, {"p": "board"}), (wrong, {"p": "board"}), (nowhere, {"p": "virtual"}), (nowhere, None))
    recorded.check("\n".join(
        lines_of_account(
            take_account(RunResults("r", "", (run,)), parts=parts, quarantine=[entry], today=date(2026, 11, 1))
        )
        for run, parts in runs
    ))  # fmt: skip


ACCOUNTS = {
    "nothing": Account(()),
    "a gap": Account((), (Problem("a shard is missing"),)),
    "no gap": Account((), (Problem("not so bad", gap=False),)),
    "a target that is down": Account((), down={"board": "no probe"}),
    "functions": Account((), functions=3),
}


@pytest.mark.parametrize("what", ACCOUNTS)
def test_a_run_is_green_only_if_its_targets_were_up_and_nothing_is_red(what: str, recorded: Recorded) -> None:
    account = ACCOUNTS[what]
    recorded.check(f"{'green' if account.green else 'not green'}, {account.colour}\n{lines_of_account(account)}")


def test_the_gate_fails_for_all_but_what_is_in_quarantine(recorded: Recorded) -> None:
    """Neither more nor less: one entry hides nothing of the other tests."""
    both, bad = NIGHT[:2], [failed(record) for record in NIGHT[:2]]
    account = take_account(RunResults("run", "", tuple(bad)), quarantine=[quarantined(ONE)], today=date(2026, 11, 1))
    changed = compare_runs(observations(both), observations(bad), names=("monday", "tuesday"))
    assert len(changed.failing) == 2
    recorded.check(lines_of_account(account.with_comparison(changed, observations(bad))))
    single = take_account(RunResults("run", "", (ONE,)))
    quiet = compare_runs(observations([ONE]), observations([ONE]), names=("monday", "tuesday"))
    recorded.check(lines_of_account(single.with_comparison(quiet)), "equal")
    recorded.check(lines_of_account(single.with_comparison(None, observations([ONE, bad[0]]))), "twice")
