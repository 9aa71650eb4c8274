"""The points of a benchmark as tables: of each case, the costliest of all, and what was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ethos_hil.base.verdict import Standing
from ethos_hil.results.latency import per_second
from ethos_hil.results.report.bench_point import PlottedPoint, clock, kibibytes, milliseconds, percent, told
from ethos_hil.results.report.pareto import Pareto, front_rows, ladder_rows, pareto
from ethos_hil.results.report.place_roofline import case_roofline, intensity
from ethos_hil.results.report.scaling import ScalingLine, scaling_lines, scaling_plot
from ethos_hil.results.report.wording import amount, counted, listed

_REASONS = 60
_NOT_COUNTED = "nothing counted its cycles"


@dataclass(frozen=True)
class PointLine:
    """A point as a row of a table. What is not known is "".

    Attributes:
        label: case or model.
        place: NPU and memory mode, with the system configuration where they have several.
        standing: how it stands.
        cycles, provenance: of the NPU.
        clock: of the NPU, that times are made with.
        millis, per_second: time of the NPU at its clock, and inferences per second.
        cpu: what the CPU does besides, with its unit.
        sram, outside: KiB of SRAM that the program needs, and KiB moved to and from memories that are none.
        use: of the MAC engine, in percent.
        intensity: MACs a byte of the busiest memory.
        bound: by what.
        reason: why there are no cycles.
    """

    label: str
    place: str
    standing: Standing
    cycles: str
    provenance: str
    clock: str
    millis: str
    per_second: str
    cpu: str
    sram: str
    outside: str
    use: str
    intensity: str
    bound: str
    reason: str


@dataclass(frozen=True)
class CaseTable:
    """A case on one target.

    Attributes:
        label, group, target: see there; the group is "" for a model.
        summary: its fastest point in words.
        pareto, ladder, front: see `Pareto`.
        scaling, scaling_lines: the picture and what it shows.
        roofline: the picture of its points; empty where those of the places have them.
        points: a row for each.
    """

    label: str
    group: str
    target: str
    summary: str
    pareto: Pareto
    ladder: tuple[tuple[str, str, str, str, str], ...]
    front: tuple[tuple[str, str, str, str, str], ...]
    scaling: Markup
    scaling_lines: tuple[ScalingLine, ...]
    roofline: Markup
    points: tuple[PointLine, ...]


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
        found, lines = pareto(name, points), scaling_lines(points)
        timed = sorted((each for each in points if each.cycles), key=lambda each: (each.millis, each.cycles))
        rest = [each for each in points if not each.cycles]
        yield CaseTable(
            label=name,
            group=first.group,
            target=first.target,
            summary=_summary(timed, rest),
            pareto=found,
            ladder=tuple(ladder_rows(found)),
            front=tuple(front_rows(found)),
            scaling=scaling_plot(name, lines),
            scaling_lines=lines,
            roofline=case_roofline(name, timed) if alone else Markup(),
            points=tuple(point_line(each, _several(points)) for each in (*timed, *rest)),
        )


def _several(points: Sequence[PlottedPoint]) -> bool:
    """Return whether an NPU and memory mode has several system configurations."""
    places = {(each.figures.npu, each.figures.memory_mode, each.figures.system_config) for each in points}
    return len({place[:2] for place in places}) < len(places)


def _summary(timed: Sequence[PlottedPoint], rest: Sequence[PlottedPoint]) -> str:
    refused = f"{len(rest):,} without cycles" if rest else ""
    return "; ".join(part for part in (told(timed[0]) if timed else "", refused) if part)


def point_line(point: PlottedPoint, with_config: bool) -> PointLine:
    """Return the row of a point."""
    figures = point.figures
    config = figures.system_config if with_config else ""
    near = intensity(point) if point.cycles else None
    return PointLine(
        label=figures.label,
        place=" ".join(part for part in (point.npu, figures.memory_mode, config) if part),
        standing=point.standing,
        cycles=amount(point.cycles) if point.cycles else "",
        provenance=figures.provenance,
        clock=clock(point),
        millis=milliseconds(point.millis) if point.millis else "",
        per_second=per_second(figures.inferences_per_s) if figures.inferences_per_s else "",
        cpu=f"{figures.cpu:,} {figures.cpu_unit}" if figures.cpu else "",
        sram=kibibytes(figures.sram_peak),
        outside=kibibytes(figures.dram_bytes),
        use=percent(figures.utilisation),
        intensity=f"{near:.3g}" if near is not None else "",
        bound=figures.bound_by,
        reason="" if point.cycles else figures.reason or _NOT_COUNTED,
    )


def costliest(points: Sequence[PlottedPoint], most: int) -> tuple[PointLine, ...]:
    """Return the rows of the points with the longest times, or the most cycles where there are no times."""
    found = sorted(points, key=lambda each: (-each.millis, -each.cycles))[:most]
    several = _several(points)
    return tuple(point_line(each, several) for each in found)


def refusals(points: Iterable[PlottedPoint]) -> tuple[RefusedPoints, ...]:
    """Return what has no cycles, by reason, the most frequent first."""
    found: dict[tuple[str, Standing], list[PlottedPoint]] = {}
    for each in points:
        if not each.cycles:
            found.setdefault((each.figures.reason or _NOT_COUNTED, each.standing), []).append(each)
    rows = [
        RefusedPoints(
            reason,
            standing,
            len(mine),
            listed(f"{npu} ({count})" for npu, count in Counter(each.npu for each in mine).most_common()),
            listed(dict.fromkeys(each.figures.label for each in mine), 5),
        )
        for (reason, standing), mine in found.items()
    ]
    rows.sort(key=lambda row: -row.count)
    rest = rows[_REASONS:]
    if rest:
        others = f"{counted(len(rest), 'other reason')}, which the tables of the cases have"
        rows[_REASONS:] = [RefusedPoints(others, Standing.SKIPPED, sum(each.count for each in rest), "", "")]
    return tuple(rows)
