"""Since when a failure or a number is as it is tonight: the stretch up to now, whatever lies in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.history import History
from ethos_hil.results.record import Failure, Record
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.since import NumberNow, SeriesPlace, Since, red_since, value_since
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.testing.synthetic_year import nights
from ethos_hil.results.verdict import FailureKind, Verdict

_FIRST = datetime(2026, 11, 1, 2, tzinfo=UTC)


def one_test() -> Record:
    return next(nights(count=1, tests=1))[0].record


def failed(record: Record, kind: FailureKind = FailureKind.MISMATCH) -> Record:
    return replace(record, verdict=Verdict.FAILED, failure=Failure(kind, "wrong"))


def counting(cycles: float) -> Callable[[Record], list[Record]]:
    """What a night has of a test that takes so many cycles."""

    def made(record: Record) -> list[Record]:
        metrics = tuple(replace(each, value=cycles) if each.name == "npu_cycles" else each for each in record.metrics)
        return [replace(record, metrics=metrics)]

    return made


def good(record: Record) -> list[Record]:
    return [record]


def bad(record: Record) -> list[Record]:
    return [failed(record)]


def gone(_: Record) -> list[Record]:
    return []


def lost(record: Record) -> list[Record]:
    return [failed(record, FailureKind.TIMEOUT)]


def lost_and_repeated(record: Record) -> list[Record]:
    return [failed(record, FailureKind.TIMEOUT), record]


def kept(folder: Path, *made: Callable[[Record], list[Record]]) -> tuple[History, RunResults]:
    """A history of nights, a day apart, and the results of the last of them."""
    other = replace(one_test(), model="other", test=None)  # so that no night is empty
    results = RunResults("", "", ())
    for at, each in enumerate(made):
        created = (_FIRST + timedelta(days=at)).isoformat()
        records = [replace(record, created=created) for record in (other, *each(one_test()))]
        compact_records([StoredRecord(f"night{at}", created, record) for record in records], folder)
        results = RunResults(f"night{at}", created, tuple(records))
    return History(folder), results


def place() -> SeriesPlace:
    one = one_test()
    return SeriesPlace(one.label, one.npu, one.memory_mode, one.target.name)


def names(since: Since) -> tuple[str, str, int]:
    return (since.first.run if since.first else "", since.last.run if since.last else "", since.runs)


def red(folder: Path, *made: Callable[[Record], list[Record]]) -> Since:
    history, tonight = kept(folder, *made)
    return red_since(history, tonight, [place()])[place()]


def test_a_failure_of_tonight_is_new_and_names_the_last_good_run(tmp_path: Path) -> None:
    found = red(tmp_path, bad, good, bad)
    assert found.new
    assert names(found) == ("", "night1", 0)
    assert found.facts["versions"] == '{"ethos-u-vela": "5.0.0", "executorch": "1.4.1", "torch": "2.13.0"}'


def test_a_stretch_begins_after_the_last_good_run_and_goes_over_nights_without_the_test(tmp_path: Path) -> None:
    assert names(red(tmp_path, bad, good, bad, gone, bad, bad)) == ("night2", "night1", 2)


def test_what_never_was_good_has_no_last_good_run(tmp_path: Path) -> None:
    assert names(red(tmp_path, bad, bad, bad)) == ("night0", "", 2)


def test_what_the_history_does_not_have_is_left_out(tmp_path: Path) -> None:
    history, tonight = kept(tmp_path, good, bad)
    other = place()._replace(npu="ethos-u85-512")
    assert red_since(history, tonight, [other, place()]).keys() == {place()}
    assert red_since(history, tonight, []) == {}


def test_an_attempt_that_could_not_be_made_does_not_count_beside_one_that_could(tmp_path: Path) -> None:
    assert names(red(tmp_path, bad, lost_and_repeated, lost, bad)) == ("night2", "night1", 1)


def test_a_failure_before_a_mode_was_known_is_the_same_test(tmp_path: Path) -> None:
    """A test that does not compile has no memory mode and no target; what it was before has both."""
    history, tonight = kept(tmp_path, good, bad, bad)
    early = place()._replace(memory_mode="", target="none")
    assert names(red_since(history, tonight, [early])[early]) == ("night1", "night0", 1)
    other = place()._replace(memory_mode="Sram_Only")
    assert red_since(history, tonight, [other]) == {}


def number(value: float) -> NumberNow:
    return NumberNow(place(), "npu_cycles", "modelled", value)


def test_a_number_is_followed_to_the_run_that_brought_it(tmp_path: Path) -> None:
    history, tonight = kept(tmp_path, counting(10), counting(9), counting(9), counting(10), counting(10), counting(10))
    found: Mapping[NumberNow, Since] = value_since(history, tonight, [number(10), number(11)])
    assert names(found[number(10)]) == ("night3", "night2", 2)
    assert names(found[number(11)]) == ("", "night4", 0)


def test_runs_after_tonight_do_not_count(tmp_path: Path) -> None:
    """A report of an old run, made again."""
    history, _ = kept(tmp_path, good, bad, bad, good)
    old = RunResults("night2", (_FIRST + timedelta(days=2)).isoformat(), ())
    assert names(red_since(history, old, [place()])[place()]) == ("night1", "night0", 1)
