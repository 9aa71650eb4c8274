"""Time against SRAM: which NPU and memory mode is the fastest that fits, and which NPU is the smallest that will do.

A point is on the front if no other one needs less of both. On the ladder are the NPUs and memory modes that no other
beats: none is as small, as fast and content with as little SRAM.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.results.report.bench_point import PlottedPoint, clock, kibibytes, mark, milliseconds, told
from ethos_hil.results.report.log_axis import LogAxis, log_axis
from ethos_hil.results.report.place_names import place_names
from ethos_hil.results.report.svg import element, grid, number, picture, text
from ethos_hil.results.report.wording import amount, counted, size

_WIDTH, _HEIGHT = 460.0, 290.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 446.0, 24.0, 254.0


@dataclass(frozen=True)
class Pareto:
    """The points of one case on one target.

    Attributes:
        unit: of the times: "ms", or "cycles" where a clock is not known.
        front: the points on the front, the least SRAM first.
        ladder: NPUs with memory modes, the smallest first, and of one NPU the fastest.
        plot: the picture; empty where no point has both.
    """

    unit: str
    front: tuple[PlottedPoint, ...]
    ladder: tuple[PlottedPoint, ...]
    plot: Markup

    def time(self, point: PlottedPoint) -> str:
        """Return a point's time."""
        return milliseconds(point.millis) if self.unit == "ms" else amount(point.cycles)


def pareto(name: str, points: Sequence[PlottedPoint]) -> Pareto:
    """Return the front, the ladder and the picture of some points. What has no cycles is left out."""
    timed = [each for each in points if each.cycles]
    unit = "ms" if timed and all(each.millis for each in timed) else "cycles"
    placed = [each for each in timed if each.figures.sram_peak is not None and each.figures.sram_peak >= 0]
    front = tuple(_front(placed, unit))
    plot = _plot(name, placed, front, unit) if placed else Markup()
    return Pareto(unit, front, tuple(_ladder(timed, unit)), plot)


def _time(point: PlottedPoint, unit: str) -> float:
    return point.millis if unit == "ms" else float(point.cycles)


def _sram(point: PlottedPoint) -> int:
    return point.figures.sram_peak or 0


def _least(point: PlottedPoint) -> float:
    """Return the SRAM that a point needs; one that does not say may need all."""
    return math.inf if point.figures.sram_peak is None else point.figures.sram_peak


def _front(points: Iterable[PlottedPoint], unit: str) -> Iterator[PlottedPoint]:
    best = None
    for point in sorted(points, key=lambda each: (_sram(each), _time(each, unit), each.size)):
        if best is None or _time(point, unit) < best:
            best = _time(point, unit)
            yield point


def _ladder(points: Iterable[PlottedPoint], unit: str) -> Iterator[PlottedPoint]:
    kept: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda each: (each.size, _time(each, unit), _least(each))):
        time, sram = _time(point, unit), _least(point)
        if not any(other <= time and less <= sram for other, less in kept):
            kept.append((time, sram))
            yield point


def _plot(name: str, points: Sequence[PlottedPoint], front: Sequence[PlottedPoint], unit: str) -> Markup:
    least = min((_sram(each) for each in points if _sram(each)), default=1)
    x = log_axis((_sram(each) or least / 2 for each in points), _LEFT, _RIGHT)
    y = log_axis((_time(each, unit) for each in points), _BOTTOM, _TOP)
    places = [(x.at(_sram(each)), y.at(_time(each, unit))) for each in points]
    corners = [(x.at(_sram(each)), y.at(_time(each, unit))) for each in front]
    path = [f"M{number(corners[0][0])} {number(corners[0][1])}"]
    path += [f"H{number(right)}V{number(low)}" for right, low in corners[1:]]
    parts = [
        *_grid(x, y, unit, zero=not all(map(_sram, points))),
        element("path", d=Markup("".join([*path, f"H{number(_RIGHT)}"])), class_="front"),
        *(mark(point, *place, f"{told(point)}, {size(_sram(point))} of SRAM")
          for point, place in zip(points, places, strict=True)),
        *place_names([(point.npu, *at) for point, at in zip(front, corners, strict=True)], places,
                     (_LEFT, _RIGHT, _TOP, _BOTTOM)),
    ]  # fmt: skip
    fastest = front[-1]
    label = (f"{name}, {counted(len(points), 'point')}: {unit} against SRAM, {len(front)} on the front; the fastest is "
             f"{told(fastest)}, with {size(_sram(fastest))} of SRAM. The tables have the same numbers.")  # fmt: skip
    return picture(_WIDTH, _HEIGHT, label, *parts)


def _grid(x: LogAxis, y: LogAxis, unit: str, *, zero: bool) -> Iterator[Markup]:
    """Yield lines and ticks; `zero`: the left edge is no SRAM at all, which a logarithm has no place for."""
    upright, level = [tick for tick in x.sizes(7) if tick >= 1], y.tens(6)
    yield grid(map(x.at, upright), map(y.at, level), (_LEFT, _RIGHT, _TOP, _BOTTOM))
    for tick in upright:
        yield text(x.at(tick), _BOTTOM + 14, size(tick), "tick", "middle")
    if zero:
        yield text(_LEFT, _BOTTOM + 14, "0", "tick", "middle")
    for tick in level:
        yield text(_LEFT - 6, y.at(tick) + 3.5, amount(tick), "tick", "end")
    yield text(_RIGHT, _BOTTOM + 30, "SRAM that the program needs", "tick", "end")
    yield text(4, _TOP - 10, "ms of the NPU at its clock" if unit == "ms" else "cycles of the NPU", "tick", "start")


def ladder_rows(found: Pareto) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield for each step of the ladder, the smallest NPU first: its time, KiB of SRAM, name, memory mode, clock."""
    for point in found.ladder:
        sram = kibibytes(point.figures.sram_peak)
        yield found.time(point), sram, point.npu, point.figures.memory_mode, clock(point)


def front_rows(found: Pareto) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield for each point of the front: from which KiB of SRAM on it is the fastest, its name, mode, clock, time."""
    for point in found.front:
        yield kibibytes(_sram(point)), point.npu, point.figures.memory_mode, clock(point), found.time(point)
