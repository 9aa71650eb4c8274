"""A benchmark in the report: its points, which NPU does, how well its MACs are used, and every point."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from markupsafe import Markup

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.plain_text import amount, count_of, list_of, memory_size
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Standing
from ethos_hil.results.bench.figures import (
    PointFigures,
    family_of,
    figures_of,
    macs_of,
    moved_bytes,
    npus_by_clock,
    short_name,
)
from ethos_hil.results.gate.account import Accounted
from ethos_hil.results.report.chart import PlotFrame, element, log_axis, number, steps
from ethos_hil.results.subject import Names, Subject

_MODES = ("Sram_Only", "Shared_Sram", "Dedicated_Sram")
_FAMILIES = [family.name for family in FAMILIES]
_LONGEST = 1e15
"""Milliseconds from which on a stated clock is not believed."""


@dataclass(frozen=True)
class PlottedPoint:
    """A point of a benchmark.

    Attributes:
        figures: see there.
        standing: how it stands.
    """

    figures: PointFigures
    standing: Standing

    @property
    def family(self) -> str:
        """The NPU without its size: "u55"."""
        return short_name(family_of(self.figures.npu))

    @property
    def macs(self) -> int:
        """Products a cycle of the NPU, 0 where its name does not tell."""
        return macs_of(self.figures.npu)

    @property
    def npu(self) -> str:
        """The NPU's short name."""
        return short_name(self.figures.npu)

    @property
    def cycles(self) -> int:
        """Cycles of one inference, 0 where there are none."""
        return max(0, self.figures.cycles or 0)

    @property
    def millis(self) -> float:
        """Milliseconds of the NPU at its stated clock, 0 where there are none."""
        millis = (self.figures.npu_s or 0.0) * 1e3
        return millis if 0 < millis < _LONGEST else 0.0

    @property
    def reason(self) -> str:
        """Why there are no cycles."""
        return self.figures.reason or "nothing counted its cycles"

    def place(self, with_config: bool) -> str:
        """Return NPU and memory mode, perhaps with the system configuration."""
        figures = self.figures
        parts = (self.npu, figures.memory_mode, figures.system_config if with_config else "")
        return " ".join(part for part in parts if part)

    @property
    def size(self) -> tuple[int, int, str]:
        """What sorts NPUs by size: fewer MACs first, then the older family."""
        return self.macs, family_order(self.family), self.figures.npu


def family_order(family: str) -> int:
    """Return the place of a family among them."""
    return _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES)


def family_class(family: str) -> str:
    """Return the class of a family's colour: there are three, and one for what is not known."""
    return f"family-{family_order(family) % 3}" if family in _FAMILIES else "family-other"


def shape(family: str, x: float, y: float, classes: str, *inside: Markup) -> Markup:
    """Return the shape of a family's marks around a point: a circle, a square or a triangle."""
    form = family_order(family) % 3
    if form == 1:
        return element("rect", *inside, x=x - 3.5, y=y - 3.5, width=7, height=7, class_=classes)
    if form == 2:
        path = Markup(f"M{number(x)} {number(y - 4.8)}l4.6 8.2h-9.2z")
        return element("path", *inside, d=path, class_=classes)
    return element("circle", *inside, cx=x, cy=y, r=3.8, class_=classes)


def sample(family: str) -> Markup:
    """Return the mark of a family for the key, in a box of 12 by 12."""
    return shape(family, 6, 6, f"point {family_class(family)}")


def npus(points: Iterable[PlottedPoint]) -> tuple[str, ...]:
    """Return the names of all NPUs, by family and size."""
    ranks = {point.figures.npu: (family_order(point.family), point.size) for point in points}
    return tuple(sorted(ranks, key=lambda name: ranks[name]))


def memory_modes(points: Iterable[PlottedPoint]) -> tuple[str, ...]:
    """Return all memory modes, the one with the most in SRAM first."""
    modes = dict.fromkeys(point.figures.memory_mode for point in points)
    return tuple(sorted(modes, key=_mode_order))


def _mode_order(mode: str) -> int:
    """Return the place of a mode: "Dedicated_Sram_384KB" is with "Dedicated_Sram"."""
    return next((at for at, prefix in enumerate(_MODES) if mode.startswith(prefix)), len(_MODES))


def mark(point: PlottedPoint, x: float, y: float, title: str) -> Markup:
    """Return a point's mark: its form and colour are the family's; one that is not verified is hollow.

    Args:
        point: the point.
        x, y: where its middle is.
        title: what is said of it.
    """
    classes = f"point {family_class(point.family)}{'' if point.standing is Standing.VERIFIED else ' hollow'}"
    return shape(point.family, x, y, classes, element("title", title))


def describe(point: PlottedPoint) -> str:
    """Return a point in words: where it ran, what it took and whence that is known."""
    figures = point.figures
    time = f", {milliseconds(point.millis)} ms" if point.millis else ""
    return f"{point.npu} {figures.memory_mode}: {point.cycles:,} cycles ({figures.provenance}){time}, {point.standing}"


def clock(point: PlottedPoint) -> str:
    """Return the MHz of the clock that a point's time is made with; "" where none is known."""
    return f"{point.figures.clock_hz / 1e6:,.6g}" if point.figures.clock_hz > 0 else ""


def intensity(point: PlottedPoint) -> float | None:
    """Return MACs for each byte of the memory that is used most of what it can do; None where there are none."""
    figures = point.figures
    sizes = moved_bytes(figures)
    busiest = max(sizes, key=lambda name: (figures.bandwidth_share.get(name, 0.0), sizes[name]), default=None)
    if busiest is None or sizes[busiest] <= 0 or (figures.macs or 0) <= 0:
        return None
    return (figures.macs or 0) / sizes[busiest]


def milliseconds(value: float) -> str:
    """Return milliseconds with three digits at least; "" for none."""
    return "" if not value else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def kibibytes(count: float | None) -> str:
    """Return bytes in KiB."""
    return "" if count is None else f"{count / 1024:,.1f}".removesuffix(".0")


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
"""Cases up to which each stands alone, and in no group."""
STEPS = (0.0, 0.05, 0.15, 0.3, 0.5, 0.75)
"""Where the next colour starts."""

HeatRow = tuple[str, tuple[float | None, ...]]
"""A case, or the median of a group, with the use of the MAC engine on each NPU, None where it is not known."""


@dataclass(frozen=True)
class HeatMap:
    """One memory mode on one target.

    Attributes:
        mode: its name.
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
        for mode in memory_modes(mine):
            heat_map = _heat_map(mode, target, [point for point in mine if point.figures.memory_mode == mode])
            if heat_map.cases:
                maps.append(heat_map)
    return tuple(maps)


def _heat_map(mode: str, target: str, points: Sequence[PlottedPoint]) -> HeatMap:
    columns = npus(point for point in points if point.cycles)
    cases: dict[str, dict[str, float]] = {}
    groups: dict[str, dict[str, list[float]]] = {}
    for point in points:
        figures = point.figures
        row = cases.setdefault(figures.label, {})
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
