"""Since when a failure or a number is as it is tonight: the stretch up to now, whatever lies in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ethos_hil.base.record import Record, RunnerInfo, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.history import History
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.since import NumberNow, Since, red_since, value_since
from ethos_hil.results.subject import subject_of
from ethos_hil.results.testing.one_name import OTHERS, TEST, net
from ethos_hil.results.testing.synthetic_year import keep

_FIRST = datetime(2026, 11, 1, 2, tzinfo=UTC)
Nights = Sequence[Sequence[Record]]


def failed(record: Record, kind: FailureKind = FailureKind.MISMATCH) -> Record:
    return replace(record, verdict=Verdict.FAILED, failure=Failure(kind, "wrong"))


def early(record: Record) -> Record:
    """It fails before it is compiled, so that neither scheme nor mode is known."""
    lost = failed(record, FailureKind.COMPILE)
    return replace(lost, artifact=None, memory_mode="", target=TargetInfo("none", "none", ""))


def counting(record: Record, cycles: float) -> Record:
    metrics = (replace(of, value=cycles) if of.name == "npu_cycles" else of for of in record.metrics)
    return replace(record, metrics=tuple(metrics))


ONE = TEST
WRONG, LOST = failed(ONE), failed(ONE, FailureKind.TIMEOUT)
OTHER = replace(ONE, model="other", test=None)
"""So that no night is empty."""
BUILT = [net(runner=RunnerInfo("runner", digit * 64)) for digit in "abc"]
RED: Mapping[str, Nights] = {
    "tonight": ([WRONG], [ONE], [WRONG]),
    "over nights without the test": ([WRONG], [ONE], [WRONG], [], [WRONG], [WRONG]),
    "never good": ([WRONG], [WRONG], [WRONG]),
    "what could not be made does not count": ([WRONG], [LOST, ONE], [LOST], [WRONG]),
    "it does not compile tonight, so has no mode": ([ONE], [WRONG], [early(ONE)]),
    "a scheme that does not compile is not the one that does":
        ([net(), net("a16w8")], [early(net()), net("a16w8")], [early(net()), failed(net("a16w8"))]),
    "a runner that is built each night": ([BUILT[0]], [failed(BUILT[1])], [failed(BUILT[2])]),
    **{
        f"two that differ in their {kind}":
            ([failed(net()), other], [net(), other], [net(), failed(other)], [failed(net()), failed(other)])
        for kind, other in OTHERS.items()
    },
}  # fmt: skip


def kept(folder: Path, nights_of: Nights) -> tuple[History, RunResults]:
    """A history of nights, a day apart, and the results of the last of them."""
    results = keep(folder, *([OTHER, *night] for night in nights_of), first=_FIRST)
    return History(folder), results[-1]


def lines_of(since: Iterable[Since | None]) -> str:
    """What is known of each: where the stretch begins, what was before it, and how long it is."""
    lines = []
    for each in since:
        if each is None:
            lines.append("unknown")
            continue
        first, last = (night and night.run for night in (each.first, each.last))
        versions = each.facts.get("versions", "nothing known")
        lines.append(f"{'new' if each.new else first}, {each.runs} runs, after {last} with {versions}")
    return "\n".join(lines)


@pytest.mark.parametrize("what", RED)
def test_a_stretch_begins_after_the_last_good_run(tmp_path: Path, what: str, recorded: Recorded) -> None:
    """Two of one name are red since their own nights; what the history does not have is left out."""
    history, tonight = kept(tmp_path, RED[what])
    subjects = [subject_of(record) for record in RED[what][-1]]
    absent = [replace(subjects[0], npu="ethos-u85-512"), replace(subjects[0], memory_mode="Dedicated_Sram")]
    since = red_since(history, tonight, subjects + absent)
    recorded.check(lines_of(map(since.get, subjects + absent)))
    assert red_since(history, tonight, []) == {}


def test_runs_after_tonight_do_not_count(tmp_path: Path, recorded: Recorded) -> None:
    """A report of an old run, made again."""
    history, _ = kept(tmp_path, ([ONE], [WRONG], [WRONG], [ONE]))
    old = RunResults("night2", (_FIRST + timedelta(days=2)).isoformat(), ())
    recorded.check(lines_of(red_since(history, old, [subject_of(ONE)]).values()))


@pytest.mark.parametrize("kind", [*OTHERS, "one"])
def test_a_number_is_followed_to_the_run_that_brought_it(tmp_path: Path, kind: str, recorded: Recorded) -> None:
    """Two of one name have their own numbers."""
    if kind == "one":
        asked = [(ONE, 10.0), (ONE, 11.0)]
        nights_of: Nights = [[counting(ONE, cycles)] for cycles in (10, 9, 9, 10, 10, 10)]
    else:
        asked = [(net(), 7.0), (OTHERS[kind], 5.0)]
        nights_of = [[counting(net(), a), counting(OTHERS[kind], b)] for a, b in ((7, 5), (7, 5), (5, 7), (7, 5))]
    history, tonight = kept(tmp_path, nights_of)
    numbers = [NumberNow(subject_of(record), "npu_cycles", "modelled", value) for record, value in asked]
    recorded.check(lines_of(map(value_since(history, tonight, numbers).get, numbers)))
