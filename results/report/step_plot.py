"""A number over time: it keeps its value until the run in which it is another one, and there is a gap where nights are
missing.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from markupsafe import Markup

from ethos_hil.results.report.svg import element, line, number, picture, text
from ethos_hil.results.report.waterfall import round_ticks
from ethos_hil.results.report.wording import amount, counted

_WIDTH, _HEIGHT = 460.0, 168.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 448.0, 24.0, 136.0
_LEAST_SPREAD = 0.02
"""The part of a value that fills the height at least: a change of 0.01 % is a dot on a level line, not a cliff."""
_LEAST_COUNTS = 4
"""The same for a number that counts things."""
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
    """From the number of a run to its place on an axis of time. `times` are when the runs began, in order."""

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
        return _LEFT + part * (_RIGHT - _LEFT)

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
    name: str, points: Sequence[tuple[int, float]], scale: NightScale, marks: Sequence[Mark], unit: str = "",
    *, counts: bool = False,
) -> Markup:  # fmt: skip
    """Return the picture of a number over time.

    Args:
        name: what the number is.
        points: the number of the run, and the value; not empty.
        scale: when the runs were.
        marks: what else is new in some of them.
        unit: of the number.
        counts: whether it counts things, so that between two values there is nothing.
    """
    values = [value for _, value in points]
    low, high = min(values), max(values)
    spread = max(high - low, *((_LEAST_COUNTS,) if counts else (_LEAST_SPREAD * abs(high), 1.0)))
    middle = (low + high) / 2
    bottom, top = max(0.0, middle - 0.65 * spread), middle + 0.65 * spread

    def y(value: float) -> float:
        return _BOTTOM - (value - bottom) / (top - bottom) * (_BOTTOM - _TOP)

    parts = [*_levels(bottom, top, y(bottom), y(top), counts), *_dates(scale)]
    parts += _letters(marks, [scale.at(mark.at) for mark in marks])
    placed = [(at, scale.at(at), y(value)) for at, value in points]
    parts.append(element("path", d=_path(placed, scale), class_="series"))
    moved = [later for earlier, later in pairwise(placed) if later[2] != earlier[2]]
    parts += [element("circle", cx=x, cy=height, r=2.25, class_="step") for _, x, height in moved[-_MOST_DOTS:]]
    parts.append(text(placed[-1][1], placed[-1][2] - 6, amount(values[-1]), "strong", "end"))
    told = f"from {amount(values[0])} to {amount(values[-1])}" if low < high else f"{amount(low)} throughout"
    runs = counted(len(scale.times), "run")
    return picture(_WIDTH, _HEIGHT, f"{name}, {runs}: {told} {unit}".strip(), *parts)


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


def _levels(bottom: float, top: float, low: float, high: float, counts: bool) -> Iterator[Markup]:
    ticks = [float(tick) for tick in round_ticks(bottom, top, 3)]
    for tick in dict.fromkeys(math.floor(each) for each in ticks) if counts else ticks:
        if tick < bottom:
            continue
        place = low + (tick - bottom) / (top - bottom) * (high - low)
        yield line(_LEFT, place, _RIGHT, place, "grid")
        yield text(_LEFT - 6, place + 3.5, amount(float(tick)), "tick", "end")


def _dates(scale: NightScale) -> Iterator[Markup]:
    yield line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis")
    for place, day in scale.dates():
        anchor = "start" if place < _LEFT + 12 else "end" if place > _RIGHT - 12 else "middle"
        yield line(place, _BOTTOM, place, _BOTTOM + 3, "axis")
        yield text(place, _BOTTOM + 15, day, "tick", anchor)


def _letters(marks: Sequence[Mark], places: Sequence[float]) -> Iterator[Markup]:
    for mark, place in zip(marks, places, strict=True):
        yield line(place, _TOP - 6, place, _BOTTOM, "event")
        yield text(place, _TOP - 9, mark.letter, "tick", "middle")
