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
from ethos_hil.results.report.step_plot import Mark, step_plot
from ethos_hil.results.report.wording import amount, change

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
        steps: the same as a table: run, when, value, how far from the one before, why.
    """

    title: str
    place: str
    plot: Markup
    steps: tuple[tuple[str, str, str, str, str], ...]


@dataclass(frozen=True)
class Trend:
    """What the runs before say.

    Attributes:
        runs: how many there are, and from when.
        series: cycles of the last runs by label, NPU, memory mode and target.
        verdicts: how many tests were verified in each run.
        counts: the same as a table, where it changed: run, when, verified, records.
        plots: the numbers that moved, latest first; `more` is how many are left out.
        marks: what changed in the tools, and with which run: letter, run, when, what.
        more: see there.
    """

    runs: str
    series: Series
    verdicts: Markup
    counts: tuple[tuple[str, str, str, str], ...]
    plots: tuple[TrendPlot, ...]
    marks: tuple[tuple[str, str, str, str], ...]
    more: int


def trend(history: History) -> Trend:
    """Return what a history's last runs say.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    runs = history.rows(
        "SELECT run, min(created) AS created, mode(versions) AS versions, mode(timing_model) AS timing_model, "
        "mode(firmware) AS firmware, count(*) AS records, count(*) FILTER (verdict = 'verified') AS verified "
        "FROM records GROUP BY run ORDER BY created DESC NULLS LAST, run DESC LIMIT ?",
        [RUNS],
    )[::-1]
    names = [run["run"] for run in runs]
    marks = list(_marks(runs))
    series = _series(history, names)
    moved = [each for each in history.changes(since=runs[0]["created"]) if each.metric == "npu_cycles"]
    by_series: dict[tuple[str, str, str, str], list[NumberChange]] = {}
    for each in moved[: _CHANGES * 50]:
        by_series.setdefault((each.label, each.npu, each.memory_mode, each.target), []).append(each)
    shown = list(by_series.items())[:_PLOTS]
    points = _points(history, [key for key, _ in shown], names)
    plots = (_plot(key, points[key], found, runs, marks) for key, found in shown if len(points.get(key, ())) > 1)
    first = runs[0]["created"]
    return Trend(
        runs=f"{len(runs)} runs since {_day(first)}",
        series=series,
        verdicts=step_plot(
            "verified tests in each run",
            [(at, float(run["verified"])) for at, run in enumerate(runs)],
            len(runs),
            marks,
        ),
        counts=tuple(_counts(runs)),
        plots=tuple(plots),
        marks=tuple((mark.letter, names[mark.at], _day(runs[mark.at]["created"]), mark.what) for mark in marks),
        more=max(0, len(by_series) - _PLOTS),
    )


def _counts(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the runs in which another number of tests was verified than in the run before."""
    before = None
    for run in runs:
        if run["verified"] != before:
            yield run["run"], _day(run["created"]), amount(run["verified"]), amount(run["records"])
        before = run["verified"]


def _series(history: History, names: Sequence[str]) -> Series:
    rows = history.rows(
        "SELECT label, npu, memory_mode, target, list(value ORDER BY created, run, number) AS found FROM points "
        "WHERE metric = 'npu_cycles' AND list_contains(?, run) GROUP BY label, npu, memory_mode, target",
        [list(names)],
    )
    return {(row["label"], row["npu"], row["memory_mode"], row["target"]): row["found"] for row in rows}


def _points(
    history: History, keys: Sequence[tuple[str, str, str, str]], names: Sequence[str]
) -> Mapping[tuple[str, str, str, str], list[tuple[int, float]]]:
    """Return the cycles of some series: the number of the run, and the value."""
    place = {name: at for at, name in enumerate(names)}
    rows = history.rows(
        "SELECT label, npu, memory_mode, target, run, value FROM points WHERE metric = 'npu_cycles' AND "
        "list_contains(?, label) AND list_contains(?, run) ORDER BY created, run, number",
        [[key[0] for key in keys], list(names)],
    )
    found: dict[tuple[str, str, str, str], list[tuple[int, float]]] = {}
    for row in rows:
        key = (row["label"], row["npu"], row["memory_mode"], row["target"])
        found.setdefault(key, []).append((place[row["run"]], row["value"]))
    return found


def _plot(
    key: tuple[str, str, str, str], points: Sequence[tuple[int, float]], moved: Sequence[NumberChange],
    runs: Sequence[Mapping[str, Any]], marks: Sequence[Mark],
) -> TrendPlot:  # fmt: skip
    label, npu, mode, target = key
    unit = moved[0].unit
    steps = ((each.run, _day(each.created), amount(each.new), change(each.new / each.old if each.old else None),
              each.cause.replace("_", " ") or "no known cause") for each in moved[:_CHANGES])  # fmt: skip
    return TrendPlot(
        title=label,
        place=" · ".join(name for name in (npu, mode, target) if name),
        plot=step_plot(f"npu_cycles of {label} on {npu}", points, len(runs), marks, unit),
        steps=tuple(steps),
    )


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


def _day(when: datetime | None) -> str:
    return f"{when:%Y-%m-%d %H:%M}" if when is not None else "an unknown time"
