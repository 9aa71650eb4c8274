"""A benchmark as text for people: how many points there are of each kind, a table of NPUs, and why some were
refused. It fits 100 columns, however many points there are.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

from rich.console import Group as Parts
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import add_row, clipped, plain, right, table_of
from ethos_hil.base.plain_text import count_of, cut, duration, escape, one_line, percent
from ethos_hil.base.verdict import Standing, Verdict
from ethos_hil.results.bench.figures import (
    PointFigures,
    clocks_of,
    family_of,
    macs_of,
    npu_order,
    npus_by_clock,
    scaling,
    short_name,
)
from ethos_hil.results.table import Fit, ResultTable, TableColumn

_NAME, _PLACE, _LAST, _REASON = 30, 20, 11, 160
"""Characters of a name and of a reason that are shown."""
_FEW, _SQUEEZED = 8, 22
"""Beside more than so many NPUs a name has so many characters."""
_REASONS = 10
_WIDE = (0, 2, 0, 0)
"""Room between columns."""
_NOT_THERE, _REFUSED = "", "-"
_DIGITS = re.compile("[0-9][0-9,.]*")


class BenchBy(StrEnum):
    """What rows are."""

    GROUP = "group"
    CASE = "case"
    NPU = "npu"


def bench_text(figures: Sequence[PointFigures], *, by: BenchBy = BenchBy.GROUP, top: int = 40) -> RenderableType:
    """Return the text of a benchmark.

    Args:
        figures: of all points.
        by: what rows are: groups with the utilisation on each NPU, cases with their cycles, or NPUs with their modes.
        top: the most rows to show; the last row says how many more there are.
    """
    parts: list[RenderableType] = [_head(figures), _facts(figures)]
    timed = [point for point in figures if point.cycles is not None]
    if timed:
        title, table_by = _TABLES[by]
        parts += ["", plain(title), table_by(figures, top)]
    for end in dict.fromkeys(point.standing for point in figures if point.reason):
        title = end if end in (Standing.REFUSED, Standing.FAILED) else f"{end}, without cycles"
        mine = [point for point in figures if point.reason and point.standing == end]
        parts += ["", Text(title, style="bold"), _reasons(mine)]
    return Parts(*parts)


def _head(figures: Sequence[PointFigures]) -> Text:
    counts = Counter(point.standing for point in figures)
    ends = ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
    cases = len({point.label for point in figures})
    places = len({point.place for point in figures})
    return plain(f"{count_of(len(figures), 'point')}, {count_of(cases, 'case')} in {count_of(places, 'place')}: {ends}")


def _facts(figures: Sequence[PointFigures]) -> Table:
    """Return the lines about all points: whose cycles they are, and the clocks of their times."""
    facts = Table.grid(padding=(0, 2))
    provenances = Counter(point.provenance for point in figures if point.provenance)
    if provenances:
        add_row(facts, "cycles", ", ".join(f"{name} of {count:,} points" for name, count in provenances.most_common()))
    for text, npus in npus_by_clock(figures).items():
        add_row(facts, "clock", f"{text}: {', '.join(npus)}")
    return facts


def _by_group(figures: Sequence[PointFigures], top: int) -> Table:
    def cell(points: Sequence[PointFigures]) -> str:
        utilisations = [point.utilisation for point in _fastest(points) if point.utilisation is not None]
        return percent(statistics.median(utilisations)) if utilisations else _REFUSED

    return _matrix(figures, "group", lambda point: point.group or point.label, cell, top)


def _by_case(figures: Sequence[PointFigures], top: int) -> Table:
    def cell(points: Sequence[PointFigures]) -> str:
        cycles = [point.cycles for point in points if point.cycles is not None]
        return _amount(min(cycles)) if cycles else _REFUSED

    return _matrix(figures, "case", lambda point: point.label, cell, top)


def _matrix(
    figures: Sequence[PointFigures],
    name: str,
    row_of: Callable[[PointFigures], str],
    cell: Callable[[Sequence[PointFigures]], str],
    top: int,
) -> Table:
    npus = sorted({point.npu for point in figures}, key=npu_order)
    rows: dict[str, dict[str, list[PointFigures]]] = {}
    for point in figures:
        rows.setdefault(row_of(point), {}).setdefault(point.npu, []).append(point)
    most = _NAME if len(npus) <= _FEW else _SQUEEZED
    numbers = right(*(["cases"] if name == "group" else []), *map(_heading, npus))
    table = table_of(*clipped(name, most=most), *numbers, padding=_WIDE)
    for row, by_npu in list(rows.items())[:top]:
        count = len({point.label for points in by_npu.values() for point in points})
        cells = [cell(by_npu[npu]) if npu in by_npu else _NOT_THERE for npu in npus]
        add_row(table, _name(row, most), *([f"{count:,}"] if name == "group" else []), *cells)
    if len(rows) > top:
        add_row(table, f"and {len(rows) - top:,} more")
    return table


def _by_npu(figures: Sequence[PointFigures], top: int) -> Table:
    """Return a table with a row for each NPU and memory mode."""
    places: dict[tuple[str, str, str, str], list[PointFigures]] = {}
    for point in figures:
        places.setdefault(point.place, []).append(point)
    gains = {id(step.point): step.speed_up for step in scaling(figures)}
    varying = [index for index in (2, 3) if len({key[index] for key in places}) > 1 and _tells(places, index)]
    verified = any(point.verdict == Verdict.VERIFIED for point in figures)
    failed = any(point.reason and not point.refused for point in figures)
    ends = [*(["verified"] if verified else []), Standing.REFUSED, *(["failed"] if failed else [])]
    table = table_of(
        *clipped("NPU", "memory mode", *(("system", "target")[index - 2] for index in varying), most=_PLACE),
        *right("points", *ends, "clock", "MAC use", "speed-up", "slowest"),
        *clipped("", most=_LAST),
        padding=(0, 1, 0, 0),
    )
    ordered = sorted(places.items(), key=lambda item: (npu_order(item[0][0]), *item[0]))
    for key, points in ordered[:top]:
        timed = [point for point in points if point.cycles is not None]
        slow = max(timed, key=lambda point: point.cycles or 0, default=None)
        add_row(
            table, short_name(key[0]), key[1], *(key[index] for index in varying), f"{len(points):,}",
            *(f"{sum(point.standing == end for point in points):,}" for end in ends),
            clocks_of(timed),
            _median_of([point.utilisation for point in timed], lambda part: f"{percent(part)} %"),
            _median_of([gains.get(id(point)) for point in timed], lambda value: f"{value:.2g}"),
            "" if slow is None else _time(slow), "" if slow is None else _name(slow.label, _LAST),
        )  # fmt: skip
    if len(places) > top:
        add_row(table, f"and {len(places) - top:,} more")
    return table


def _tells(places: Iterable[tuple[str, str, str, str]], index: int) -> bool:
    """Return whether a part of a place tells two of them apart that have the same NPU and mode."""
    values: dict[tuple[str, str], set[str]] = {}
    for place in places:
        values.setdefault(place[:2], set()).add(place[index])
    return any(len(values) > 1 for values in values.values())


def _reasons(figures: Sequence[PointFigures]) -> Table:
    """Return a table of the reasons and where they are met; those that differ only in numbers and names are one."""
    reasons: dict[str, list[PointFigures]] = {}
    for point in figures:
        reasons.setdefault(_alike(point), []).append(point)
    ordered = sorted(reasons.values(), key=lambda points: -len(points))
    rest = ordered[_REASONS:]
    more = (f"{sum(map(len, rest)):,}", "", f"for {len(rest):,} more reasons") if rest else ()
    return ResultTable(_REASON_COLUMNS, ordered).to_text(_REASONS, rest=more, padding=_WIDE)


_REASON_COLUMNS: tuple[TableColumn[Sequence[PointFigures]], ...] = (
    TableColumn("points", len, fit=Fit.NUMBER),
    TableColumn("where", lambda points: "; ".join(_where(points)), most=_NAME),
    TableColumn("reason", lambda points: cut(one_line(points[0].reason), _REASON)),
)


def _alike(point: PointFigures) -> str:
    reason = one_line(point.reason)
    for name in (point.label, point.npu, point.memory_mode, point.system_config):
        reason = reason.replace(name, "*") if name else reason
    return _DIGITS.sub("#", reason)


def _where(points: Sequence[PointFigures]) -> Iterator[str]:
    """Yield what a reason's points have in common, in a few words."""
    for values, word in (
        ([point.label for point in points], "cases"),
        ([short_name(point.npu) for point in points], "NPUs"),
        ([point.memory_mode for point in points if point.memory_mode], "modes"),
    ):
        distinct = list(dict.fromkeys(values))
        if distinct:
            yield _name(distinct[0]) if len(distinct) == 1 else f"{len(distinct):,} {word}"


def _fastest(points: Sequence[PointFigures]) -> Iterator[PointFigures]:
    """Yield the fastest point of each case."""
    fastest: dict[str, PointFigures] = {}
    for point in points:
        best = fastest.get(point.label)
        if point.cycles is not None and (best is None or point.cycles < (best.cycles or 0)):
            fastest[point.label] = point
    return iter(fastest.values())


def _median_of(values: Sequence[float | None], text: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return text(statistics.median(known)) if known else ""


def _time(point: PointFigures) -> str:
    return duration(point.npu_s) if point.npu_s else f"{point.cycles:,} cycles"


def _amount(number: float) -> str:
    """Return a number in at most five characters: "987", "12.3k", "1.2M"."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            value = number / size
            return f"{value:.0f}{unit}" if value >= 99.95 else f"{value:.1f}{unit}"
    return f"{number:.0f}"


def _name(text: str, most: int = _NAME) -> str:
    """Return a name that is not too long: its end says more than its start."""
    name = one_line(text)
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _heading(npu: str) -> Text:
    """Return an NPU's name on two lines."""
    return Text(f"{escape(short_name(family_of(npu)))}\n{macs_of(npu)}") if macs_of(npu) else plain(short_name(npu))


_FASTEST = "in the fastest memory mode of each"
_TABLES: dict[BenchBy, tuple[str, Callable[[Sequence[PointFigures], int], Table]]] = {
    BenchBy.GROUP: (f"MAC utilisation in percent, the median of the group's cases, {_FASTEST}", _by_group),
    BenchBy.CASE: (f"cycles of the NPU, {_FASTEST}", _by_case),
    BenchBy.NPU: ("NPUs and memory modes", _by_npu),
}
"""What a table shows, and what makes it."""
