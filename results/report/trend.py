"""The runs before: what each number was, and what changed in the tools between two runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from ethos_hil.results.history import History, NumberChange
from ethos_hil.results.report.matrix import Series
from ethos_hil.results.report.step_plot import Mark, NightScale, step_plot
from ethos_hil.results.report.wording import amount, change, day

RUNS = 120
"""Runs that are looked at, the last ones."""
_PLOTS = 16
_CHANGES = 60


@dataclass(frozen=True)
class TrendPlot:
    """A number over the runs.

    Attributes:
        title, place: what it is of.
        plot: the picture.
        steps: the same as a table, the latest first: run, when, value, how far from the one before, why.
    """

    title: str
    place: str
    plot: Markup
    steps: tuple[tuple[str, str, str, str, str], ...]


@dataclass(frozen=True)
class Trend:
    """What the runs before say.

    Attributes:
        runs: how many there are, and from when to when.
        series: cycles of the last runs by label, NPU, memory mode and target.
        verdicts: how many tests were verified in each run; empty where there is one run.
        counts: the same as a table, where it changed: run, when, verified, records.
        plots: the numbers that moved, latest first; `more` is how many are left out.
        marks: what changed in the tools, and with which run: letter, run, when, what.
        more: see there.
        moved: whether cycles of anything moved.
    """

    runs: str
    series: Series
    verdicts: Markup
    counts: tuple[tuple[str, str, str, str], ...]
    plots: tuple[TrendPlot, ...]
    marks: tuple[tuple[str, str, str, str], ...]
    more: int
    moved: bool


def trend(history: History) -> Trend | None:
    """Return what a history's last runs say, None where none of them has a time.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    runs = history.rows(
        "SELECT run, min(created) AS created, mode(versions) AS versions, mode(timing_model) AS timing_model, "
        "mode(firmware) AS firmware, count(*) AS records, count(*) FILTER (verdict = 'verified') AS verified "
        "FROM records WHERE counts AND created IS NOT NULL GROUP BY run ORDER BY created DESC, run DESC LIMIT ?",
        [RUNS],
    )[::-1]
    if not runs:
        return None
    names = [run["run"] for run in runs]
    scale = NightScale([run["created"] for run in runs])
    recent = history.of_runs(names)
    with recent.kept_open():
        series = _series(recent, names)
        if len(runs) == 1:
            return Trend("one run so far", series, Markup(), (), (), (), 0, False)
        marks = list(_marks(runs))
        moved, causes = _moved(recent, runs[0]["created"], series)
        points = _points(recent, moved[:_PLOTS], names)
    plots = (_plot(key, points[key], causes, runs, scale, marks) for key in moved[:_PLOTS] if key in points)
    return Trend(
        runs=f"{len(runs)} runs, {day(scale.times[0])} to {day(scale.times[-1])}",
        series=series,
        verdicts=step_plot(
            "verified tests in each run",
            [(at, float(run["verified"])) for at, run in enumerate(runs)],
            scale,
            marks,
            counts=True,
        ),
        counts=tuple(_counts(runs)),
        plots=tuple(plots),
        marks=tuple((mark.letter, names[mark.at], _when(runs[mark.at]["created"]), mark.what) for mark in marks),
        more=max(0, len(moved) - _PLOTS),
        moved=bool(moved),
    )


_Key = tuple[str, str, str, str]
"""Label, NPU, memory mode and target."""
_Causes = Mapping[tuple[_Key, str], NumberChange]
"""What the history says of a change, by series and run."""


def _moved(history: History, first: datetime, series: Series) -> tuple[list[_Key], _Causes]:
    """Return the series whose cycles moved, latest first, and why.

    A series here goes on over an edit of its model, so that more of them may have moved than the history has changes.
    """
    causes = {
        ((each.label, each.npu, each.memory_mode, each.target), each.run): each
        for each in history.changes(since=first)
        if each.metric == "npu_cycles"
    }
    told = dict.fromkeys(key for key, _ in causes if key in series)
    others = (key for key, values in series.items() if min(values) < max(values))
    return list(dict.fromkeys((*told, *others))), causes


def _counts(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the runs in which another number of tests was verified than in the run before."""
    before = None
    for run in runs:
        if run["verified"] != before:
            yield run["run"], _when(run["created"]), amount(run["verified"]), amount(run["records"])
        before = run["verified"]


def _series(history: History, names: Sequence[str]) -> Series:
    rows = history.rows(
        "SELECT label, npu, memory_mode, target, list(value ORDER BY created, run, number) AS found FROM points "
        "WHERE metric = 'npu_cycles' AND counts AND list_contains(?, run) GROUP BY label, npu, memory_mode, target",
        [list(names)],
    )
    return {(row["label"], row["npu"], row["memory_mode"], row["target"]): row["found"] for row in rows}


_Point = tuple[int, float, str]
"""The number of a run, a value, and what was asked."""


def _points(history: History, keys: Sequence[_Key], names: Sequence[str]) -> Mapping[_Key, list[_Point]]:
    """Return the cycles of some series."""
    place = {name: at for at, name in enumerate(names)}
    rows = history.rows(
        "SELECT label, npu, memory_mode, target, run, value, question FROM points WHERE metric = 'npu_cycles' AND "
        "counts AND list_contains(?, label) AND list_contains(?, run) AND created IS NOT NULL "
        "ORDER BY created, run, number",
        [[key[0] for key in keys], list(names)],
    )
    found: dict[_Key, list[_Point]] = {}
    for row in rows:
        key = (row["label"], row["npu"], row["memory_mode"], row["target"])
        found.setdefault(key, []).append((place[row["run"]], row["value"], row["question"]))
    return {key: sorted(found[key], key=lambda point: point[0]) for key in keys if key in found}


def _plot(
    key: _Key, points: Sequence[_Point], causes: _Causes, runs: Sequence[Mapping[str, Any]], scale: NightScale,
    marks: Sequence[Mark],
) -> TrendPlot:  # fmt: skip
    label, npu, mode, target = key
    return TrendPlot(
        title=label,
        place=" · ".join(name for name in (npu, mode, target) if name),
        plot=step_plot(f"npu_cycles of {label} on {npu}", [point[:2] for point in points], scale, marks, "cycles"),
        steps=tuple(_steps(key, points, causes, runs))[::-1][:_CHANGES],
    )


def _steps(
    key: _Key, points: Sequence[_Point], causes: _Causes, runs: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the runs in which a series has another value than before."""
    for (_, old, asked), (at, new, asks) in pairwise(points):
        if new != old:
            run = runs[at]
            known = causes.get((key, run["run"]))
            cause = known.cause if known is not None else "edited" if asks != asked else ""
            difference = change(new / old if old else None)
            yield run["run"], _when(run["created"]), amount(new), difference, _WHY.get(cause) or cause


_WHY: Mapping[str, str] = {
    "edited": "the model was edited",
    "tosa": "another TOSA program",
    "weights": "other encoded weights",
    "stream": "another command stream",
    "timing_model": "another timing model",
    "firmware": "another firmware",
    "fvp": "another FVP",
    "": "not known",
}


def _marks(runs: Sequence[Mapping[str, Any]]) -> Iterator[Mark]:
    """Yield what changed in the tools between two runs."""
    count = 0
    for at, (before, after) in enumerate(pairwise(runs), start=1):
        old, new = (json.loads(run["versions"] or "{}") for run in (before, after))
        told = [
            f"{name} {old[name]} became {new[name]}"
            for name in sorted(old.keys() & new.keys())
            if old[name] != new[name]
        ]
        for column, name in (("timing_model", "the timing model"), ("firmware", "the firmware")):
            if before[column] and after[column] and before[column] != after[column]:
                told.append(f"{name} is another one ({before[column][:8]} became {after[column][:8]})")
        if told:
            yield Mark(at, chr(ord("A") + count % 26), "; ".join(told))
            count += 1


def _when(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M}"
