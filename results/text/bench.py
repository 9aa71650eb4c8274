"""A benchmark as text for people: how many points there are of each kind, a table of NPUs, and why some were
refused. It fits 100 columns, however many points there are. And the answer to a budget in words.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial

from rich.console import Group as Parts
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.clock import frequency
from ethos_hil.base.console import add_row, clipped, plain, right, table_of
from ethos_hil.base.plain_text import count_of, cut, duration, escape, list_of, one_line, per_second, percent
from ethos_hil.base.verdict import Standing, Verdict
from ethos_hil.results.bench.budget import QUANTITIES, BudgetAnswer, BudgetPlace, Margin, Quantity
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

SRAM = (
    "sram is what the NPU's program takes: its scratch with its inputs and outputs, the cache of Dedicated_Sram, and "
    "in Sram_Only its command stream and weights. Not in it: {tensors}, and of the firmware its tables of the program "
    "(below 8 KB), variables, stack and code"
)
_ALWAYS = ("latency", "sram")
"""Quantities that are shown whatever was asked."""
_CLOCK_DIGITS = 4
_MODELS = "model"
"""The group of a benchmark that models are."""
_BYTES = (("MB", 2.0**20), ("KB", 2.0**10), ("B", 1.0))


def shown_quantities(answer: BudgetAnswer) -> list[Quantity]:
    """Return the quantities that a table of places has: those of the budget first."""
    names = [condition.quantity.name for condition in answer.budget.conditions]
    return [QUANTITIES[name] for name in dict.fromkeys((*names, *_ALWAYS))]


def headline(answer: BudgetAnswer) -> str:
    """Return the answer in a sentence."""
    best = answer.best
    models = f" for all {len(answer.labels):,}" if len(answer.labels) > 1 else ""
    if best is not None:
        doubt = ", by less than the timing model's error" if best.doubtful else ""
        return f"{best.npu} in {best.memory_mode} is the smallest that meets {answer.budget}{models}{doubt}"
    nearest = next((place for place in answer.places if not place.refused), None)
    known = nearest is not None and all(margin.short is not None for margin in nearest.lacks)
    beside = f"; the nearest is {nearest.npu} in {nearest.memory_mode}" if nearest is not None and known else ""
    return f"nothing meets {answer.budget}{models}{beside}"


def explain(answer: BudgetAnswer) -> Iterator[str]:
    """Yield what is to know of the answer: by how much the best place meets it, and whose numbers these are."""
    best = answer.best
    if best is not None:
        yield from (_margin(margin, several=len(best.points) > 1) for margin in best.margins)
        if best.doubtful:
            certain = answer.certain
            which = "nothing" if certain is None else f"{certain.npu} in {certain.memory_mode}"
            yield f"{which} meets it even where the model is wrong by its error at worst"
    points = [point for place in answer.places for point in place.points]
    provenances = dict.fromkeys(point.provenance for point in points if point.provenance)
    if provenances:
        clocks = npus_by_clock(points)
        verdicts = dict.fromkeys(point.verdict for point in points)
        alone = "" if all(point.total_s is not None for point in points) else "; times are of the NPU alone"
        yield f"{', '.join(verdicts)}; cycles are {', '.join(provenances)}; clock {', '.join(clocks)}{alone}"
    if any(condition.quantity.name == "sram" for condition in answer.budget.conditions) and points:
        yield _explain_sram(best)


def _margin(margin: Margin, *, several: bool) -> str:
    of = f" of {one_line(margin.label)}" if several else ""
    text = f"{margin.condition.quantity.name}{of}: {_spare(margin)} to spare"
    if margin.clock_hz is None or not margin.point.clock_hz:
        return f"{text}{_against_error(margin)}"
    at, down_to = frequency(margin.point.clock_hz), frequency(_upward(margin.clock_hz))
    return f"{text} at {at}{_against_error(margin)}; it holds down to {down_to}"


def _against_error(margin: Margin) -> str:
    """Return how what is spare compares with the error of the figure."""
    point, error = margin.point, margin.error
    if not margin.condition.quantity.timed:
        return ""
    if error is not None:
        than = "less" if margin.doubtful else "more"
        family = point.npu.rpartition("-")[0].title()
        single = ", and more on a single small operation" if point.group not in ("", _MODELS) else ""
        details = f"{error} on {family}{single}; docs/npu.md"
        return f", which is {than} than the timing model's error on networks ({details})"
    if point.provenance == "modelled":
        return f" (how far the timing model is off is not known for {point.npu})"
    counter = {"measured": "a board", "fvp": "an FVP"}.get(point.provenance, point.provenance)
    return f" (counted by {counter}, so without the timing model's error)"


def _explain_sram(best: BudgetPlace | None) -> str:
    """Return what the figure of SRAM leaves out, with what is known of it at a place."""
    points = best.points if best is not None else ()
    planned = [point.planned_bytes for point in points if point.planned_bytes is not None]
    in_use = [point.sram_used for point in points if point.sram_used is not None]
    tensors = "tensors outside of it"
    if best is not None and planned:
        size = shown_quantity(QUANTITIES["sram"], max(planned))
        tensors += f" ({size} for {best.npu} in {best.memory_mode}, in SRAM or beyond)"
    text = SRAM.format(tensors=tensors)
    if in_use:
        text += f". Booted, the firmware had {shown_quantity(QUANTITIES['sram'], max(in_use))} of its pool in use"
    return text


def remark(place: BudgetPlace) -> str:
    """Return in a few words whether a place meets the budget, and by how much."""
    if place.lacks:
        return "; ".join(_lack(margin, several=len(place.points) > 1) for margin in place.lacks)
    tightest = min(place.margins, key=lambda margin: math.inf if margin.spare is None else margin.spare)
    of = f" ({tightest.condition.quantity.name})" if len(place.margins) > 1 else ""
    return f"meets it by {_spare(tightest)}{of}{', within the error' if place.doubtful else ''}"


def _lack(lack: Margin, *, several: bool) -> str:
    quantity = lack.condition.quantity
    of = f" of {one_line(lack.label)}" if several else ""
    if lack.found is None or lack.short is None:
        return f"{quantity.name}{of} is not known"
    side = "too low" if quantity.at_least else "too high"
    return f"{quantity.name}{of} {lack.short:.3g}x {side}{', within the error' if lack.doubtful else ''}"


def _spare(margin: Margin) -> str:
    spare = margin.spare
    if spare is None or not math.isfinite(spare):
        return "all"
    percent = 100 * spare
    return f"{percent:,.0f} %" if percent >= 9.95 else f"{percent:.2g} %"


def worst(place: BudgetPlace, quantity: Quantity) -> str:
    """Return the worst figure of a place's models; "" where one is not known."""
    values = [value for point in place.points if (value := quantity.value(point)) is not None]
    if not values or len(values) < len(place.points):
        return ""
    return shown_quantity(quantity, min(values) if quantity.at_least else max(values))


def clock(place: BudgetPlace) -> str:
    """Return the clock that a place's times are made with; "" where none is known."""
    return clocks_of(place.points)


def verdicts(place: BudgetPlace) -> str:
    """Return how the answers of a place's models ended."""
    return ", ".join(dict.fromkeys(point.verdict for point in place.points))


def refused_places(answer: BudgetAnswer, most: int) -> Iterator[tuple[str, str]]:
    """Yield the places of each reason for which there are no figures, `most` of them by name, and the reason."""
    reasons: dict[str, list[BudgetPlace]] = {}
    for place in answer.places:
        if place.refused:
            reasons.setdefault(place.refused.replace(place.npu, "*"), []).append(place)
    for places in reasons.values():
        names = [f"{short_name(place.npu)} in {place.memory_mode}" for place in places]
        yield list_of(names, most), one_line(places[0].refused)


def _upward(hz: float) -> float:
    """Return a frequency with a few digits, not below it: at what is shown it holds."""
    unit = 10.0 ** (math.floor(math.log10(hz)) + 1 - _CLOCK_DIGITS) if hz > 0 else 1.0
    return math.ceil(hz / unit - 1e-9) * unit


def shown_quantity(quantity: Quantity, value: float) -> str:
    """Return a figure in the unit that people use."""
    if quantity.name == "fps":
        return per_second(value)
    if quantity.name == "latency":
        return duration(value)
    if quantity.name == "cycles":
        return f"{value:,.0f}"
    return next(f"{value / size:,.3g} {unit}" if value < 1000 * size else f"{value / size:,.0f} {unit}"
                for unit, size in _BYTES if value >= size or unit == "B")  # fmt: skip


_REFUSAL, _PLACES_NAMED = 120, 3


def budget_text(answer: BudgetAnswer, *, top: int = 40) -> RenderableType:
    """Return the text of an answer.

    Args:
        answer: the answer.
        top: the most rows to show.
    """
    able = [place for place in answer.places if not place.refused]
    several = len({point.verdict for place in able for point in place.points}) > 1
    columns: list[TableColumn[BudgetPlace]] = [
        TableColumn("NPU", lambda place: place.npu, fit=Fit.WHOLE),
        TableColumn("memory mode", lambda place: place.memory_mode, fit=Fit.WHOLE),
        TableColumn("clock", clock, fit=Fit.NUMBER),
        *(TableColumn(quantity.name, partial(worst, quantity=quantity), fit=Fit.NUMBER)
          for quantity in shown_quantities(answer)),
        *([TableColumn("verdict", verdicts)] if several else ()),
        TableColumn("", remark),
    ]  # fmt: skip
    parts: list[RenderableType] = [_first_line(answer), *map(plain, explain(answer))]
    if able:
        parts += ["", ResultTable(columns, able).to_text(top, padding=(0, 2, 0, 0))]
    refused = refused_places(answer, _PLACES_NAMED)
    return Parts(*parts, *(plain(f"refused: {places}: {cut(why, _REFUSAL)}") for places, why in refused))


def _first_line(answer: BudgetAnswer) -> Text:
    best = answer.best
    style = "bold red" if best is None else "bold yellow" if best.doubtful else "bold green"
    return Text(escape(headline(answer)), style)


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
    """Return a table of rows by NPU."""
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
            _median_of([point.utilisation for point in timed], _use),
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


def _use(part: float | None) -> str:
    """Return a part of the MAC engine in percent; "" for None."""
    return "" if part is None else f"{percent(part)} %"


def _reasons(figures: Sequence[PointFigures]) -> Table:
    """Return a table of reasons, the most frequent first, each with where it is met. Reasons that differ in numbers and
    in the names of the points alone are one; the first of them is shown.
    """
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
