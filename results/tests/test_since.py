"""Since when a failure or a number is as it is tonight: the stretch up to now, whatever lies in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ethos_hil.base.record import BenchInfo, Record, RunnerInfo, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.history import History
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.since import NumberNow, Since, red_since, value_since
from ethos_hil.results.subject import Subject, subject_of
from ethos_hil.results.testing.synthetic_year import keep, nights

_FIRST = datetime(2026, 11, 1, 2, tzinfo=UTC)


def one_test() -> Record:
    return next(nights(count=1, tests=1))[0].record


def failed(record: Record, kind: FailureKind = FailureKind.MISMATCH) -> Record:
    return replace(record, verdict=Verdict.FAILED, failure=Failure(kind, "wrong"))


Change = Callable[[Record], list[Record]]


def counting(cycles: float) -> Change:
    """What a night has of a test that takes so many cycles."""

    def night(record: Record) -> list[Record]:
        return [replace(record, metrics=tuple(replace(metric, value=cycles) if metric.name == "npu_cycles" else metric
                                              for metric in record.metrics))]  # fmt: skip

    return night


def good(record: Record) -> list[Record]:
    return [record]


def bad(record: Record) -> list[Record]:
    return [failed(record)]


def gone(_: Record) -> list[Record]:
    return []


def lost(record: Record) -> list[Record]:
    return [failed(record, FailureKind.TIMEOUT)]


def lost_and_repeated(record: Record) -> list[Record]:
    return [*lost(record), record]


def kept(folder: Path, *changes: Change) -> tuple[History, RunResults]:
    """A history of nights, a day apart, and the results of the last of them."""
    other = replace(one_test(), model="other", test=None)  # so that no night is empty
    return followed(folder, *([other, *change(one_test())] for change in changes))


def place() -> Subject:
    return subject_of(one_test())


def names(since: Since) -> tuple[str, str, int]:
    return (since.first.run if since.first else "", since.last.run if since.last else "", since.runs)


@pytest.mark.parametrize(
    ("nights_of", "expected"),
    [
        ((bad, good, bad), ("", "night1", 0)),
        ((bad, good, bad, gone, bad, bad), ("night2", "night1", 2)),
        ((bad, bad, bad), ("night0", "", 2)),
        ((bad, lost_and_repeated, lost, bad), ("night2", "night1", 1)),
    ],
    ids=["tonight", "over nights without the test", "never good", "what could not be made does not count"],
)
def test_a_stretch_begins_after_the_last_good_run(
    tmp_path: Path, nights_of: Sequence[Change], expected: tuple[str, str, int]
) -> None:
    history, tonight = kept(tmp_path, *nights_of)
    since = red_since(history, tonight, [place()])[place()]
    assert (names(since), since.new) == (expected, not expected[2])
    versions = '{"ethos-u-vela": "5.0.0", "executorch": "1.4.1", "torch": "2.13.0"}'
    assert not since.new or since.facts["versions"] == versions


def test_what_the_history_does_not_have_is_left_out(tmp_path: Path) -> None:
    history, tonight = kept(tmp_path, good, bad)
    other = replace(place(), npu="ethos-u85-512")
    assert red_since(history, tonight, [other, place()]).keys() == {place()}
    assert red_since(history, tonight, []) == {}


def test_a_failure_before_a_mode_was_known_is_the_same_test(tmp_path: Path) -> None:
    """A test that does not compile has no memory mode and no target; what it was before has both."""
    history, tonight = kept(tmp_path, good, bad, bad)
    early = replace(place(), memory_mode="", target="none")
    assert names(red_since(history, tonight, [early])[early]) == ("night1", "night0", 1)
    other = replace(place(), memory_mode="Sram_Only")
    assert red_since(history, tonight, [other]) == {}


def number(value: float) -> NumberNow:
    return NumberNow(place(), "npu_cycles", "modelled", value)


def test_a_number_is_followed_to_the_run_that_brought_it(tmp_path: Path) -> None:
    history, tonight = kept(tmp_path, counting(10), counting(9), counting(9), counting(10), counting(10), counting(10))
    since = value_since(history, tonight, [number(10), number(11)])
    assert names(since[number(10)]) == ("night3", "night2", 2)
    assert names(since[number(11)]) == ("", "night4", 0)


def test_runs_after_tonight_do_not_count(tmp_path: Path) -> None:
    """A report of an old run, made again."""
    history, _ = kept(tmp_path, good, bad, bad, good)
    old = RunResults("night2", (_FIRST + timedelta(days=2)).isoformat(), ())
    assert names(red_since(history, old, [place()])[place()]) == ("night1", "night0", 1)


def net(scheme: str = "a8w8", **changes: object) -> Record:
    test = one_test()
    assert test.artifact is not None
    record = replace(test, test=None, model="net.py:net", artifact=replace(test.artifact, scheme=scheme))
    return replace(record, **changes)  # type: ignore[arg-type]


def early(record: Record) -> Record:
    """It fails before it is compiled, so that neither scheme nor mode is known."""
    lost = failed(record, FailureKind.COMPILE)
    return replace(lost, artifact=None, memory_mode="", target=TargetInfo("none", "none", ""))


def followed(folder: Path, *nights_of: list[Record]) -> tuple[History, RunResults]:
    """A history of nights with these records."""
    results = keep(folder, *nights_of, first=_FIRST)
    return History(folder), results[-1]


BOTH = {
    "scheme": (net("a8w8"), net("a16w8")),
    "case": tuple(net(bench=BenchInfo("grid", case, "nets")) for case in ("small", "wide")),
    "method": (net(), net(method="decode")),
    "mode": (net(), net(memory_mode="Sram_Only")),
    "system_config": (net(system_config="High_End"), net(system_config="Deep")),
    "board": tuple(replace(one_test(), target=TargetInfo(f"board:{at}", "board", "corstone-300")) for at in "ab"),
    "runner": tuple(net(runner=RunnerInfo("runner", digit * 64)) for digit in "ab"),
}


@pytest.mark.parametrize("kind", BOTH)
def test_two_of_one_name_are_red_since_their_own_nights(tmp_path: Path, kind: str) -> None:
    first, other = BOTH[kind]
    history, tonight = followed(
        tmp_path, [failed(first), other], [first, other], [first, failed(other)], [failed(first), failed(other)]
    )
    since = red_since(history, tonight, [subject_of(first), subject_of(other)])
    assert names(since[subject_of(first)]) == ("", "night2", 0)
    assert names(since[subject_of(other)]) == ("night2", "night1", 1)


@pytest.mark.parametrize("kind", BOTH)
def test_two_of_one_name_have_their_own_numbers(tmp_path: Path, kind: str) -> None:
    first, other = BOTH[kind]
    history, tonight = followed(tmp_path, *([*counting(a)(first), *counting(b)(other)]
                                            for a, b in ((7, 5), (7, 5), (5, 7), (7, 5))))  # fmt: skip
    numbers = [
        NumberNow(subject_of(record), "npu_cycles", "modelled", value) for record, value in ((first, 7), (other, 5))
    ]
    since = value_since(history, tonight, numbers)
    assert [names(since[question]) for question in numbers] == [("", "night2", 0)] * 2


def test_a_scheme_that_does_not_compile_is_not_the_one_that_does(tmp_path: Path) -> None:
    """Neither where it failed so before, nor where it does tonight."""
    first, other = BOTH["scheme"]
    history, tonight = followed(tmp_path, [first, other], [early(first), other], [early(first), failed(other)])
    subjects = [subject_of(early(first)), subject_of(other)]
    since = red_since(history, tonight, subjects)
    assert [names(since[subject]) for subject in subjects] == [("night1", "night0", 1), ("", "night1", 0)]


def test_a_runner_that_is_built_each_night_is_one_series(tmp_path: Path) -> None:
    records = [net(runner=RunnerInfo("runner", digit * 64)) for digit in "abc"]
    history, tonight = followed(tmp_path, [records[0]], [failed(records[1])], [failed(records[2])])
    subject = subject_of(records[2])
    assert names(red_since(history, tonight, [subject])[subject]) == ("night1", "night0", 1)
