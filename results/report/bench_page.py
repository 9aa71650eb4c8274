"""A benchmark in the report: which NPU does, what more MACs are worth, how well they are used, and every point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from ethos_hil.base.clock import frequency
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.bench.figures import figures_of
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report.bench_answer import BenchAnswer, bench_answers
from ethos_hil.results.report.bench_point import PlottedPoint, memory_modes
from ethos_hil.results.report.bench_table import (
    CaseTable,
    PointLine,
    RefusedPoints,
    case_tables,
    costliest,
    refusals,
)
from ethos_hil.results.report.heat_map import FEW, HeatMap, heat_maps, key
from ethos_hil.results.report.place_roofline import PlaceRoofline, place_rooflines
from ethos_hil.results.report.scaling import ScalingLine, median_lines, scaling_lines, scaling_plot
from ethos_hil.results.report.wording import counted, listed
from ethos_hil.results.subject import Names, Subject

_PLACES = 3
"""Places, NPU and memory mode, from which on a model's runs are a benchmark."""
_COSTLIEST = 40


@dataclass(frozen=True)
class BenchPage:
    """What the section of a benchmark shows.

    Attributes:
        title: grid and size.
        facts: what is to know before the numbers are read.
        answers: to the budgets that it was asked about.
        families, modes: those that there are, for the key of the pictures.
        heat_maps, heat_key: how well the MAC engine is used; number and range of each colour.
        scaling, scaling_lines: the picture of all cases, and what it shows: a line each.
        rooflines: by memory mode.
        groups: the cases, by group.
        costliest, costliest_of: the points with the longest times; "of 3,012".
        refusals: what was not timed, by reason.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    answers: tuple[BenchAnswer, ...]
    families: tuple[str, ...]
    modes: tuple[str, ...]
    heat_maps: tuple[HeatMap, ...]
    heat_key: tuple[tuple[int, str], ...]
    scaling: Markup
    scaling_lines: tuple[ScalingLine, ...]
    rooflines: tuple[tuple[str, tuple[PlaceRoofline, ...]], ...]
    groups: tuple[tuple[str, tuple[CaseTable, ...]], ...]
    costliest: tuple[PointLine, ...]
    costliest_of: str
    refusals: tuple[RefusedPoints, ...]


def bench_page(asked: Sequence[Accounted], folders: Iterable[Path] = ()) -> BenchPage | None:
    """Return the section of a run's benchmark; None where the run has none. Raises OSError.

    Args:
        asked: what was asked in the run.
        folders: of the run, which say which budgets it was asked about.
    """
    points = plotted(asked)
    return _page(points, [each.record for each in asked], folders) if points else None


def plotted(asked: Sequence[Accounted]) -> tuple[PlottedPoint, ...]:
    """Return the points of a run: those of a benchmark, and those of models that ran at several places."""
    places: dict[str, set[tuple[str, str, str]]] = {}
    for each in asked:
        if each.record.test is None:
            places.setdefault(each.label, set()).add(_place(each.record))
    shown = [each for each in asked if each.record.bench is not None or len(places.get(each.label, ())) >= _PLACES]
    names = Names(map(_case, shown))
    return tuple(
        PlottedPoint(replace(figures_of(each.record), label=names.name(_case(each))), each.standing) for each in shown
    )


def _case(asked: Accounted) -> Subject:
    """Return a point's subject under its case, whose place is told beside it."""
    return replace(asked.subject, label=asked.name, case=asked.label, system_config="", soc="", runner="")


def _place(record: Record) -> tuple[str, str, str]:
    return record.npu, record.memory_mode, record.system_config


def _page(points: Sequence[PlottedPoint], records: Sequence[Record], folders: Iterable[Path]) -> BenchPage:
    timed = [each for each in points if each.cycles]
    by_case = _by_case(points)
    medians = median_lines(scaling_lines(mine) for mine in by_case.values()) if len(by_case) > FEW else ()
    rooflines: dict[str, list[PlaceRoofline]] = {}
    for plot in place_rooflines(timed):
        rooflines.setdefault(plot.mode, []).append(plot)
    groups: dict[str, list[CaseTable]] = {}
    for each in case_tables(by_case.values(), alone=not rooflines):
        groups.setdefault(each.group if len(by_case) > FEW else f"{each.label} {each.target}", []).append(each)
    answers, problem = bench_answers(records, folders)
    grids = dict.fromkeys(each.bench.grid for each in records if each.bench is not None)
    return BenchPage(
        title=f"{f'grid {listed(grids)}, ' if grids else ''}{counted(len(points), 'point')}",
        facts=(*_facts(points, timed), *((("budgets", problem),) if problem else ())),
        answers=answers,
        families=tuple(dict.fromkeys(each.family for each in sorted(timed, key=lambda point: point.size[1]))),
        modes=memory_modes(timed),
        heat_maps=heat_maps(points),
        heat_key=key(),
        scaling=scaling_plot(f"Median of {counted(len(by_case), 'case')}", medians),
        scaling_lines=medians,
        rooflines=tuple((mode, tuple(plots)) for mode, plots in rooflines.items()),
        groups=tuple((name, tuple(tables)) for name, tables in groups.items()),
        costliest=costliest(timed, _COSTLIEST),
        costliest_of=f"{min(len(timed), _COSTLIEST):,} of {len(timed):,}",
        refusals=refusals(points),
    )


def _by_case(points: Iterable[PlottedPoint]) -> dict[tuple[str, str, str], list[PlottedPoint]]:
    """Return the points of each case on each target: no picture has cycles of two provenances.

    What has no cycles is with the first of its case and target that has some.
    """
    found: dict[tuple[str, str, str], list[PlottedPoint]] = {}
    first: dict[tuple[str, str], str] = {}
    for each in points:
        if each.cycles:
            first.setdefault((each.figures.label, each.figures.target), each.figures.provenance)
    for each in points:
        place = each.figures.label, each.figures.target
        provenance = each.figures.provenance if each.cycles else first.get(place, "")
        found.setdefault((*place, provenance), []).append(each)
    return found


def _facts(points: Sequence[PlottedPoint], timed: Sequence[PlottedPoint]) -> Iterator[tuple[str, str]]:
    cases = len({each.figures.label for each in points})
    without = Counter(each.standing for each in points if not each.cycles)
    rest = "".join(f"; {count:,} {standing}, without cycles" for standing, count in without.most_common())
    yield "points", f"{counted(cases, 'case')} on {counted(len({each.npu for each in points}), 'NPU')}{rest}"
    tally = Counter(each.standing for each in timed)
    stands = ", ".join(f"{tally[standing]:,} {standing}" for standing in Standing if tally[standing])
    unseen = ": compiled and timed, with answers that nobody looked at" if tally[Standing.COMPILED_ONLY] else ""
    yield "answers", f"{stands or 'none'}{unseen}"
    whence = Counter(each.figures.provenance for each in timed)
    yield "cycles are", ", ".join(f"{name} ({count:,})" for name, count in whence.items()) or "not known"
    clocks: dict[str, dict[str, None]] = {}
    for each in sorted(timed, key=lambda point: (point.size[1], point.size)):
        if each.figures.clock_hz > 0:
            told = f"{frequency(each.figures.clock_hz)} ({each.figures.clock_of})"
            clocks.setdefault(told, {})[each.npu] = None
    for told, names in clocks.items():
        yield "clock", f"{told}: {', '.join(names)}"
