"""The runs before: what each number was, and what changed in the tools between two runs."""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, pairwise
from typing import Any

from markupsafe import Markup

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.plain_text import amount, change, count_of, day
from ethos_hil.results.history import History, NumberChange
from ethos_hil.results.report.chart import Axis, PlotFrame, element, line, number, text
from ethos_hil.results.subject import KEY, Names, Subject

_FRAME = PlotFrame(left=66.0, height=168.0)
_LEAST_SPREAD = 0.02
"""The part of a value that fills the height at least: a change of 0.01 % is a dot on a level line, not a cliff."""
_MISSING = 1.75
"""How many times the usual time between two runs is too long: at least one night is missing there."""
_DATES = 5
_MOST_DOTS = 60


@dataclass(frozen=True)
class Mark:
    """A run with which something of the tools is new.

    Attributes:
        at: the run's number.
        letter: what the pictures call it.
        what: what is new.
    """

    at: int
    letter: str
    what: str


@dataclass(frozen=True)
class NightScale:
    """From the number of a run to its place on an axis of time. `times` are when the runs started, in order."""

    times: Sequence[datetime]

    def at(self, run: int) -> float:
        """Return where a run is."""
        return self._place(self.times[run])

    def missing(self, run: int, later: int) -> bool:
        """Return whether nights are missing between two runs."""
        return (self.times[later] - self.times[run]).total_seconds() > _MISSING * self._usual

    @functools.cached_property
    def _usual(self) -> float:
        """Seconds that are usual between two runs."""
        between = [(later - earlier).total_seconds() for earlier, later in pairwise(self.times)]
        return statistics.median(between) if between else 0.0

    def _place(self, time: datetime) -> float:
        whole = (self.times[-1] - self.times[0]).total_seconds()
        part = (time - self.times[0]).total_seconds() / whole if whole else 0.0
        return _FRAME.left + part * (_FRAME.right - _FRAME.left)

    def dates(self) -> Iterator[tuple[float, str]]:
        """Yield days, about as many as fit, with their places."""
        first, last = self.times[0], self.times[-1]
        days = max(1, math.ceil((last - first) / timedelta(days=1) / (_DATES - 1)))
        day = first.replace(hour=0, minute=0, second=0, microsecond=0)
        if day < first:
            day += timedelta(days=1)
        year = first.year != last.year
        while day <= last:
            yield self._place(day), f"{day.day} {day:%b}{f' {day:%y}' if year else ''}"
            day += timedelta(days=days)


def step_plot(
    name: str, points: Sequence[tuple[int, float]], scale: NightScale, marks: Sequence[Mark], unit: str = ""
) -> Markup:  # fmt: skip
    """Return the picture of a number over time.

    Args:
        name: what the number is.
        points: the number of the run, and the value; not empty.
        scale: when the runs were.
        marks: what else is new in some of them.
        unit: of the number.
    """
    values = [value for _, value in points]
    low, high = min(values), max(values)
    spread = max(high - low, _LEAST_SPREAD * abs(high), 1.0)
    middle = (low + high) / 2
    bottom, top = max(0.0, middle - 0.65 * spread), middle + 0.65 * spread

    y = Axis(bottom, top, _FRAME.bottom, _FRAME.top)
    parts = [*_FRAME.levels(y, y.ticks(3)), *_dates(scale)]
    for mark in marks:
        place = scale.at(mark.at)
        parts.append(line(place, _FRAME.top - 6, place, _FRAME.bottom, "event"))
        parts.append(text(place, _FRAME.top - 9, mark.letter, "tick", "middle"))
    placed = [(at, scale.at(at), y.at(value)) for at, value in points]
    parts.append(element("path", d=_path(placed, scale), class_="series"))
    moved = [later for earlier, later in pairwise(placed) if later[2] != earlier[2]]
    parts += [element("circle", cx=x, cy=height, r=2.25, class_="step") for _, x, height in moved[-_MOST_DOTS:]]
    parts.append(text(placed[-1][1], placed[-1][2] - 6, amount(values[-1]), "strong", "end"))
    course = f"from {amount(values[0])} to {amount(values[-1])}" if low < high else f"{amount(low)} throughout"
    runs = count_of(len(scale.times), "run")
    return _FRAME.picture(f"{name}, {runs}: {course} {unit}".strip(), *parts)


def _path(placed: Sequence[tuple[int, float, float]], scale: NightScale) -> Markup:
    """Return a line that keeps each value until the next one, and ends where nights are missing."""
    _, x, y = placed[0]
    parts = [f"M{number(x)} {number(y)}h0.1"]
    for earlier, later in pairwise(placed):
        if later[0] > earlier[0] + 1 or scale.missing(earlier[0], later[0]):
            parts.append(f"M{number(later[1])} {number(later[2])}h0.1")
        else:
            parts.append(f"H{number(later[1])}")
            parts.append(f"V{number(later[2])}" if later[2] != earlier[2] else "")
    return Markup("".join(parts))


def _dates(scale: NightScale) -> Iterator[Markup]:
    yield line(_FRAME.left, _FRAME.bottom, _FRAME.right, _FRAME.bottom, "axis")
    for place, date in scale.dates():
        yield line(place, _FRAME.bottom, place, _FRAME.bottom + 3, "axis")
        yield _FRAME.below(place, date)


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
        plots: the numbers that moved, latest first; `more` is how many are left out.
        marks: what changed in the tools, and with which run: letter, run, when, what.
        more: see there.
        moved: whether cycles of anything moved.
    """

    runs: str
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
        "mode(firmware) AS firmware FROM records WHERE counts AND created IS NOT NULL "
        "GROUP BY run ORDER BY created DESC, run DESC LIMIT ?",
        [RUNS],
    )[::-1]
    if not runs:
        return None
    if len(runs) == 1:
        return Trend("one run so far", (), (), 0, False)
    names = [run["run"] for run in runs]
    scale = NightScale([run["created"] for run in runs])
    recent = history.of_runs(names)
    with recent.kept_open():
        lines = _lines(recent, names)
        marks = list(_marks(runs))
        moved, causes = _select(recent, runs[0]["created"], lines)
        points = _points(recent, moved[:_PLOTS], names)
    called = Names(line.key for line in lines)
    plots = (_plot(line, called.name(line.key), own, causes, runs, scale, marks)
             for line, own in zip(moved[:_PLOTS], points, strict=True) if own)  # fmt: skip
    return Trend(
        runs=f"{len(runs)} runs, {day(scale.times[0])} to {day(scale.times[-1])}",
        plots=tuple(plots),
        marks=tuple((mark.letter, names[mark.at], _when(runs[mark.at]["created"]), mark.what) for mark in marks),
        more=max(0, len(moved) - _PLOTS),
        moved=bool(moved),
    )


@dataclass(frozen=True)
class _SubjectLine:
    """Cycles of one subject over the runs, oldest first, under each of the runners that it had, the last one last."""

    numbers: tuple[int, ...]
    keys: tuple[Subject, ...]
    values: tuple[float, ...]

    @property
    def key(self) -> Subject:
        """The subject, as its last run has it."""
        return self.keys[-1]


_Causes = Mapping[tuple[int, str], NumberChange]
"""What the history says of a change, by the number of the subject, and run."""


def _select(history: History, first: datetime, lines: Sequence[_SubjectLine]) -> tuple[list[_SubjectLine], _Causes]:
    """Return the lines whose cycles moved, latest first, and why.

    A line goes on over another runner, so that more of them may have moved than the history has changes.
    """
    causes = {(step.subject, step.run): step for step in history.changes(since=first) if step.metric == "npu_cycles"}
    by_number = {number: line for line in lines for number in line.numbers}
    latest = [by_number[number] for number, _ in causes if number in by_number]
    others = (line for line in lines if min(line.values) < max(line.values))
    return list({line.numbers: line for line in (*latest, *others)}.values()), causes


def _lines(history: History, names: Sequence[str]) -> list[_SubjectLine]:
    rows = history.rows(
        "SELECT subject, arg_max(run, created) AS last, list(value ORDER BY created, run, number) AS found FROM points "
        "WHERE metric = 'npu_cycles' AND counts AND list_contains(?, run) AND created IS NOT NULL GROUP BY subject",
        [list(names)],
    )
    keys = _keys(history, {row["last"] for row in rows})
    alike: dict[Subject, list[Mapping[str, Any]]] = {}
    for row in rows:
        alike.setdefault(replace(keys[row["subject"]], runner=""), []).append(row)
    groups = [part for own in alike.values() for part in _in_turn(history, own, names)]
    return [
        _SubjectLine(
            numbers=tuple(row["subject"] for row in group),
            keys=tuple(keys[row["subject"]] for row in group),
            values=tuple(chain.from_iterable(row["found"] for row in group)),
        )
        for group in groups
    ]


def _keys(history: History, runs: Collection[str]) -> Mapping[int, Subject]:
    rows = history.rows(
        f"SELECT subject, any_value({KEY}) AS key FROM records WHERE run IN ({', '.join('?' * len(runs))}) "
        "GROUP BY subject",
        list(runs),
    )
    return {row["subject"]: Subject(**row["key"]) for row in rows}


def _in_turn(history: History, alike: list[Mapping[str, Any]], names: Sequence[str]) -> list[list[Mapping[str, Any]]]:
    """Return subjects that differ in their runners only as one line, oldest first, where no run has two of them."""
    if len(alike) == 1:
        return [alike]
    rows = history.rows(
        "SELECT subject, min(created) AS first, list(DISTINCT run) AS runs FROM records WHERE counts AND "
        "list_contains(?::UBIGINT[], subject) AND list_contains(?, run) GROUP BY subject ORDER BY first",
        [[row["subject"] for row in alike], list(names)],
    )
    runs = [run for row in rows for run in row["runs"]]
    by_number = {row["subject"]: row for row in alike}
    return [[by_number[row["subject"]] for row in rows]] if len(set(runs)) == len(runs) else [[row] for row in alike]


_Point = tuple[int, float, str, int]
"""The number of a run, a value, what was asked, and the number of the subject."""


def _points(history: History, lines: Sequence[_SubjectLine], names: Sequence[str]) -> list[list[_Point]]:
    place = {name: at for at, name in enumerate(names)}
    rows = history.rows(
        "SELECT subject, run, value, question FROM points WHERE metric = 'npu_cycles' AND counts AND "
        "list_contains(?::UBIGINT[], subject) AND list_contains(?, run) AND created IS NOT NULL "
        "ORDER BY created, run, number",
        [[number for line in lines for number in line.numbers], list(names)],
    )
    series: dict[int, list[_Point]] = {}
    for row in rows:
        series.setdefault(row["subject"], []).append((place[row["run"]], row["value"], row["question"], row["subject"]))
    joined = ([point for number in line.numbers for point in series.get(number, ())] for line in lines)
    return [sorted(points, key=lambda point: point[0]) for points in joined]


def _plot(
    line: _SubjectLine, name: str, points: Sequence[_Point], causes: _Causes, runs: Sequence[Mapping[str, Any]],
    scale: NightScale, marks: Sequence[Mark],
) -> TrendPlot:  # fmt: skip
    key = line.key
    return TrendPlot(
        title=name,
        place=" · ".join(part for part in (key.npu, key.memory_mode, key.target) if part),
        plot=step_plot(f"npu_cycles of {name} on {key.npu}", [point[:2] for point in points], scale, marks, "cycles"),
        steps=tuple(_steps(points, causes, runs))[::-1][:_CHANGES],
    )


def _steps(
    points: Sequence[_Point], causes: _Causes, runs: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the runs in which a line has another value than before."""
    for (_, old, asks_before, _), (at, new, asks, subject) in pairwise(points):
        if new != old:
            run = runs[at]
            step = causes.get((subject, run["run"]))
            cause = step.cause if step is not None else "edited" if asks != asks_before else ""
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
        changes = [
            f"{name} {old[name]} became {new[name]}"
            for name in sorted(old.keys() & new.keys())
            if old[name] != new[name]
        ]
        for column, name in (("timing_model", "the timing model"), ("firmware", "the firmware")):
            if before[column] and after[column] and before[column] != after[column]:
                changes.append(f"{name} is another one ({before[column][:8]} became {after[column][:8]})")
        if changes:
            yield Mark(at, chr(ord("A") + count % 26), "; ".join(changes))
            count += 1


def _when(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M}"
