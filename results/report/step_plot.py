"""A number over the runs: it keeps its value until the run in which it is another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.results.report.svg import element, line, picture, steps, text
from ethos_hil.results.report.waterfall import round_ticks
from ethos_hil.results.report.wording import amount

_WIDTH, _HEIGHT = 460.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 452.0, 24.0, 132.0


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


def step_plot(
    name: str, points: Sequence[tuple[int, float]], runs: int, marks: Sequence[Mark], unit: str = ""
) -> Markup:
    """Return the picture of a number in the order of the runs.

    Args:
        name: what the number is.
        points: the number of the run, and the value; not empty.
        runs: how many runs there are.
        marks: what else is new in some of them.
        unit: of the number.
    """
    values = [value for _, value in points]
    low, high = min(values), max(values)
    spread = max(high - low, 0.001 * high, 1.0)
    bottom, top = max(0.0, low - 0.15 * spread), high + 0.15 * spread

    def x(at: float) -> float:
        return _LEFT + at / max(1, runs) * (_RIGHT - _LEFT)

    def y(value: float) -> float:
        return _BOTTOM - (value - bottom) / (top - bottom) * (_BOTTOM - _TOP)

    parts = [*_scale(bottom, top, y(bottom), y(top)), *_letters(marks, [x(mark.at) for mark in marks])]
    parts.append(element("path", d=steps(((x(at), y(value)) for at, value in points), x(runs)), class_="series"))
    parts.append(text(_RIGHT, y(values[-1]) - 5, amount(values[-1]), "strong", "end"))
    moved = f"from {amount(values[0])} to {amount(values[-1])}" if low < high else f"{amount(low)} throughout"
    return picture(_WIDTH, _HEIGHT, f"{name}, {runs} runs: {moved} {unit}".strip(), *parts)


def _scale(bottom: float, top: float, low: float, high: float) -> Iterator[Markup]:
    for tick in round_ticks(bottom, top, 3):
        place = low + (tick - bottom) / (top - bottom) * (high - low)
        yield line(_LEFT, place, _RIGHT, place, "grid")
        yield text(_LEFT - 6, place + 3.5, amount(float(tick)), "tick", "end")


def _letters(marks: Sequence[Mark], places: Sequence[float]) -> Iterator[Markup]:
    for mark, place in zip(marks, places, strict=True):
        yield line(place, _TOP - 6, place, _BOTTOM, "event")
        yield text(place, _TOP - 9, mark.letter, "tick", "middle")
