"""The points of a benchmark as tables: of each case, the costliest of all, and what was refused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.base.verdict import Standing
from ethos_hil.base.wording import amount, count_of, list_of, memory_size
from ethos_hil.results.report.bench_point import PlottedPoint, describe, mark, milliseconds
from ethos_hil.results.report.chart import PlotFrame, element, log_axis, steps
from ethos_hil.results.report.roofline import case_roofline
from ethos_hil.results.report.scaling import ScalingLine, scaling_lines, scaling_plot

_FRAME = PlotFrame(left=52.0)


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
    timed = [point for point in points if point.cycles]
    unit = "ms" if timed and all(point.millis for point in timed) else "cycles"
    placed = [point for point in timed if point.figures.sram_peak is not None and point.figures.sram_peak >= 0]
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
    for point in sorted(points, key=lambda point: (_sram(point), _time(point, unit), point.size)):
        if best is None or _time(point, unit) < best:
            best = _time(point, unit)
            yield point


def _ladder(points: Iterable[PlottedPoint], unit: str) -> Iterator[PlottedPoint]:
    kept: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda point: (point.size, _time(point, unit), _least(point))):
        time, sram = _time(point, unit), _least(point)
        if not any(other <= time and less <= sram for other, less in kept):
            kept.append((time, sram))
            yield point


def _plot(name: str, points: Sequence[PlottedPoint], front: Sequence[PlottedPoint], unit: str) -> Markup:
    least = min((_sram(point) for point in points if _sram(point)), default=1)
    x = log_axis((_sram(point) or least / 2 for point in points), _FRAME.left, _FRAME.right)
    y = log_axis((_time(point, unit) for point in points), _FRAME.bottom, _FRAME.top)
    places = [(x.at(_sram(point)), y.at(_time(point, unit))) for point in points]
    corners = [(x.at(_sram(point)), y.at(_time(point, unit))) for point in front]
    fastest = front[-1]
    label = (f"{name}, {count_of(len(points), 'point')}: {unit} against SRAM, {len(front)} on the front; the fastest "
             f"is {describe(fastest)}, with {memory_size(_sram(fastest))} of SRAM. The tables have the same numbers."
             )  # fmt: skip
    return _FRAME.picture(
        label,
        *_FRAME.uprights(x, (tick for tick in x.sizes(7) if tick >= 1), "SRAM that the program needs", memory_size),
        # The left edge stands for no SRAM at all, which a logarithm has no place for.
        *(() if all(map(_sram, points)) else (_FRAME.below(_FRAME.left, "0"),)),
        *_FRAME.levels(y, y.tens(6), "ms of the NPU at its clock" if unit == "ms" else "cycles of the NPU"),
        element("path", d=steps(corners, _FRAME.right), class_="front"),
        *(mark(point, *place, f"{describe(point)}, {memory_size(_sram(point))} of SRAM")
          for point, place in zip(points, places, strict=True)),
        *_FRAME.names([(point.npu, *at) for point, at in zip(front, corners, strict=True)], places),
    )  # fmt: skip


_REASONS = 60


@dataclass(frozen=True)
class CaseTable:
    """A case on one target.

    Attributes:
        label, group, target: see there; the group is "" for a model.
        summary: its fastest point in words.
        pareto: see there.
        scaling, scaling_lines: the picture and what it shows.
        roofline: the picture of its points; empty where those of the places have them.
        points: those with cycles, the fastest first, then the others.
        with_config: whether an NPU and memory mode has several system configurations.
    """

    label: str
    group: str
    target: str
    summary: str
    pareto: Pareto
    scaling: Markup
    scaling_lines: tuple[ScalingLine, ...]
    roofline: Markup
    points: tuple[PlottedPoint, ...]
    with_config: bool


@dataclass(frozen=True)
class RefusedPoints:
    """What was not timed for one reason: how many points, on which NPUs and modes, of which cases."""

    reason: str
    standing: Standing
    count: int
    places: str
    cases: str


def case_tables(cases: Iterable[Sequence[PlottedPoint]], *, alone: bool) -> Iterator[CaseTable]:
    """Yield the tables of all cases.

    Args:
        cases: the points of each.
        alone: whether no other picture has its points below their roofs.
    """
    for points in cases:
        first = points[0].figures
        name = first.label
        tradeoff, lines = pareto(name, points), scaling_lines(points)
        timed = sorted((point for point in points if point.cycles), key=lambda point: (point.millis, point.cycles))
        rest = [point for point in points if not point.cycles]
        yield CaseTable(
            label=name,
            group=first.group,
            target=first.target,
            summary=_summary(timed, rest),
            pareto=tradeoff,
            scaling=scaling_plot(name, lines),
            scaling_lines=lines,
            roofline=case_roofline(name, timed) if alone else Markup(),
            points=(*timed, *rest),
            with_config=several_configs(points),
        )


def several_configs(points: Sequence[PlottedPoint]) -> bool:
    """Return whether an NPU and memory mode has several system configurations."""
    places = {(point.figures.npu, point.figures.memory_mode, point.figures.system_config) for point in points}
    return len({place[:2] for place in places}) < len(places)


def _summary(timed: Sequence[PlottedPoint], rest: Sequence[PlottedPoint]) -> str:
    refused = f"{len(rest):,} without cycles" if rest else ""
    return "; ".join(part for part in (describe(timed[0]) if timed else "", refused) if part)


def costliest(points: Sequence[PlottedPoint], most: int) -> tuple[PlottedPoint, ...]:
    """Return the points with the longest times, or the most cycles where there are no times."""
    return tuple(sorted(points, key=lambda point: (-point.millis, -point.cycles))[:most])


def refusals(points: Iterable[PlottedPoint]) -> tuple[RefusedPoints, ...]:
    """Return what has no cycles, by reason, the most frequent first."""
    reasons: dict[tuple[str, Standing], list[PlottedPoint]] = {}
    for point in points:
        if not point.cycles:
            reasons.setdefault((point.reason, point.standing), []).append(point)
    rows = [
        RefusedPoints(
            reason,
            standing,
            len(mine),
            list_of(f"{npu} ({count})" for npu, count in Counter(point.npu for point in mine).most_common()),
            list_of(dict.fromkeys(point.figures.label for point in mine), 5),
        )
        for (reason, standing), mine in reasons.items()
    ]
    rows.sort(key=lambda row: -row.count)
    rest = rows[_REASONS:]
    if rest:
        others = f"{count_of(len(rest), 'other reason')}, which the tables of the cases have"
        rows[_REASONS:] = [RefusedPoints(others, Standing.SKIPPED, sum(row.count for row in rest), "", "")]
    return tuple(rows)
