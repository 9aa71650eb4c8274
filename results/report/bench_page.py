"""A benchmark in the report: which NPU does, how well its MACs are used, and every point."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.base.wording import amount, count_of, list_of, memory_size
from ethos_hil.results.bench.figures import figures_of, npus_by_clock, short_name
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report.bench_point import PlottedPoint, describe, mark, memory_modes, milliseconds, npus
from ethos_hil.results.report.chart import PlotFrame, element, log_axis, steps
from ethos_hil.results.subject import Names, Subject

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
        points: those with cycles, the fastest first, then the others.
        with_config: whether an NPU and memory mode has several system configurations.
    """

    label: str
    group: str
    target: str
    summary: str
    pareto: Pareto
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


def case_tables(cases: Iterable[Sequence[PlottedPoint]]) -> Iterator[CaseTable]:
    """Yield the tables of all cases, of which there are the points."""
    for points in cases:
        first = points[0].figures
        name = first.label
        timed = sorted((point for point in points if point.cycles), key=lambda point: (point.millis, point.cycles))
        rest = [point for point in points if not point.cycles]
        yield CaseTable(
            label=name,
            group=first.group,
            target=first.target,
            summary=_summary(timed, rest),
            pareto=pareto(name, points),
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


FEW = 3
"""Cases up to which all memory modes are in one map."""
STEPS = (0.0, 0.05, 0.15, 0.3, 0.5, 0.75)
"""Where the next colour starts."""


HeatRow = tuple[str, tuple[float | None, ...]]
"""A case, or the median of a group, with the use of the MAC engine on each NPU, None where it is not known."""


@dataclass(frozen=True)
class HeatMap:
    """One memory mode on one target.

    Attributes:
        mode: its name; "" where all modes are in one map, with a row for each case and mode.
        target: the target's.
        npus: short names of the columns.
        groups: a row for each group: the median of its cases.
        cases: a row for each case.
        left_out: cases that multiply nothing, so that there is nothing to use the MAC engine for.
    """

    mode: str
    target: str
    npus: tuple[str, ...]
    groups: tuple[HeatRow, ...]
    cases: tuple[HeatRow, ...]
    left_out: tuple[str, ...]


def heat_maps(points: Sequence[PlottedPoint]) -> tuple[HeatMap, ...]:
    """Return the maps of all memory modes and targets that have something in them."""
    maps = []
    for target in dict.fromkeys(point.figures.target for point in points):
        mine = [point for point in points if point.figures.target == target]
        modes = memory_modes(mine)
        if len({point.figures.label for point in mine}) <= FEW and len(modes) > 1:
            labels = list(dict.fromkeys(point.figures.label for point in mine))
            mine.sort(key=lambda point: (labels.index(point.figures.label), modes.index(point.figures.memory_mode)))
            heat_map = _heat_map("", target, mine)
            maps += [heat_map] if heat_map.cases else []
            continue
        for mode in modes:
            heat_map = _heat_map(mode, target, [point for point in mine if point.figures.memory_mode == mode])
            if heat_map.cases:
                maps.append(heat_map)
    return tuple(maps)


def _heat_map(mode: str, target: str, points: Sequence[PlottedPoint]) -> HeatMap:
    columns = npus(point for point in points if point.cycles)
    alone = len({point.figures.label for point in points}) == 1
    cases: dict[str, dict[str, float]] = {}
    groups: dict[str, dict[str, list[float]]] = {}
    for point in points:
        figures = point.figures
        row = cases.setdefault(_row_name(point, mode, alone), {})
        if figures.utilisation:
            row[figures.npu] = max(figures.utilisation, row.get(figures.npu, 0.0))
            groups.setdefault(figures.group, {}).setdefault(figures.npu, []).append(figures.utilisation)
    medians = {name: {npu: statistics.median(values) for npu, values in row.items()} for name, row in groups.items()}
    return HeatMap(
        mode,
        target,
        tuple(short_name(name) for name in columns),
        _heat_rows(medians, columns),
        _heat_rows({name: row for name, row in cases.items() if row}, columns),
        tuple(name for name, row in cases.items() if not row),
    )


def _row_name(point: PlottedPoint, mode: str, alone: bool) -> str:
    figures = point.figures
    if mode:
        return figures.label
    return figures.memory_mode if alone else f"{figures.label} {figures.memory_mode}"


def _heat_rows(rows: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> tuple[HeatRow, ...]:
    return tuple((name, tuple(row.get(npu) for npu in columns)) for name, row in rows.items())


def heat_step(utilisation: float | None) -> int:
    """Return the number of a cell's colour, 0 where nothing is known."""
    return 0 if utilisation is None else sum(utilisation >= step for step in STEPS)


def key() -> tuple[tuple[int, str], ...]:
    """Return the colours: the number of each, and from where to where it is."""
    ends = [f"{step * 100:.0f}" for step in (*STEPS[1:], 1.0)]
    begins = [f"{step * 100:.0f}" for step in STEPS]
    return tuple((at + 1, f"{begin} to {end} %") for at, (begin, end) in enumerate(zip(begins, ends, strict=True)))


_PLACES = 3
"""Places, NPU and memory mode, from which on a model's runs are a benchmark."""


@dataclass(frozen=True)
class BenchPage:
    """What the section of a benchmark shows.

    Attributes:
        title: grid and size.
        facts: what is to know before the numbers are read.
        families: those that there are, for the key of the pictures.
        heat_maps, heat_key: how well the MAC engine is used; number and range of each colour.
        groups: the cases, by group.
        refusals: what was not timed, by reason.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    families: tuple[str, ...]
    heat_maps: tuple[HeatMap, ...]
    heat_key: tuple[tuple[int, str], ...]
    groups: tuple[tuple[str, tuple[CaseTable, ...]], ...]
    refusals: tuple[RefusedPoints, ...]


def bench_page(tests: Sequence[Accounted]) -> BenchPage | None:
    """Return the section of a run's benchmark, of what was asked in the run; None where it has none."""
    points = plot(tests)
    return _page(points, [test.record for test in tests]) if points else None


def plot(tests: Sequence[Accounted]) -> tuple[PlottedPoint, ...]:
    """Return the points of a run: those of a benchmark, and those of models that ran at several places."""
    places: dict[str, set[tuple[str, str, str]]] = {}
    for test in tests:
        if test.record.test is None:
            places.setdefault(test.label, set()).add(_place(test.record))
    shown = [test for test in tests if test.record.bench is not None or len(places.get(test.label, ())) >= _PLACES]
    names = Names(map(_case, shown))
    return tuple(
        PlottedPoint(replace(figures_of(test.record), label=names.name(_case(test))), test.standing) for test in shown
    )


def _case(test: Accounted) -> Subject:
    """Return a point's subject under its case, whose place is told beside it."""
    return replace(test.subject, label=test.name, case=test.label, system_config="", soc="", runner="")


def _place(record: Record) -> tuple[str, str, str]:
    return record.npu, record.memory_mode, record.system_config


def _page(points: Sequence[PlottedPoint], records: Sequence[Record]) -> BenchPage:
    timed = [point for point in points if point.cycles]
    by_case = _by_case(points)
    groups: dict[str, list[CaseTable]] = {}
    for table in case_tables(by_case.values()):
        groups.setdefault(table.group if len(by_case) > FEW else f"{table.label} {table.target}", []).append(table)
    grids = dict.fromkeys(record.bench.grid for record in records if record.bench is not None)
    return BenchPage(
        title=f"{f'grid {list_of(grids)}, ' if grids else ''}{count_of(len(points), 'point')}",
        facts=tuple(_facts(points, timed)),
        families=tuple(dict.fromkeys(point.family for point in sorted(timed, key=lambda point: point.size[1]))),
        heat_maps=heat_maps(points),
        heat_key=key(),
        groups=tuple((name, tuple(tables)) for name, tables in groups.items()),
        refusals=refusals(points),
    )


def _by_case(points: Iterable[PlottedPoint]) -> dict[tuple[str, str, str], list[PlottedPoint]]:
    """Return the points of each case on each target: no picture has cycles of two provenances.

    What has no cycles is with the first of its case and target that has some.
    """
    cases: dict[tuple[str, str, str], list[PlottedPoint]] = {}
    first: dict[tuple[str, str], str] = {}
    for point in points:
        if point.cycles:
            first.setdefault((point.figures.label, point.figures.target), point.figures.provenance)
    for point in points:
        place = point.figures.label, point.figures.target
        provenance = point.figures.provenance if point.cycles else first.get(place, "")
        cases.setdefault((*place, provenance), []).append(point)
    return cases


def _facts(points: Sequence[PlottedPoint], timed: Sequence[PlottedPoint]) -> Iterator[tuple[str, str]]:
    cases = len({point.figures.label for point in points})
    without = Counter(point.standing for point in points if not point.cycles)
    rest = "".join(f"; {count:,} {standing}, without cycles" for standing, count in without.most_common())
    yield "points", f"{count_of(cases, 'case')} on {count_of(len({point.npu for point in points}), 'NPU')}{rest}"
    tally = Counter(point.standing for point in timed)
    stands = ", ".join(f"{tally[standing]:,} {standing}" for standing in Standing if tally[standing])
    unseen = ": compiled and timed, with answers that no one looked at" if tally[Standing.COMPILED_ONLY] else ""
    yield "answers", f"{stands or 'none'}{unseen}"
    whence = Counter(point.figures.provenance for point in timed)
    yield "cycles are", ", ".join(f"{name} ({count:,})" for name, count in whence.items()) or "not known"
    by_size = sorted(timed, key=lambda point: (point.size[1], point.size))
    for clock, names in npus_by_clock(point.figures for point in by_size).items():
        yield "clock", f"{clock}: {', '.join(names)}"
