"""The answer to a budget in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from rich.console import Group as Parts
from rich.console import RenderableType
from rich.text import Text

from ethos_hil.base.clock import frequency
from ethos_hil.base.console import plain
from ethos_hil.base.plain_text import cut, duration, escape, list_of, one_line, per_second, percent
from ethos_hil.results.bench.budget import QUANTITIES, BudgetAnswer, BudgetPlace, Margin, Quantity
from ethos_hil.results.bench.figures import clocks_of, npus_by_clock, short_name
from ethos_hil.results.table import Fit, ResultTable, TableColumn

SRAM = (
    "sram is what the NPU's program takes: its scratch with its inputs and outputs, the cache of Dedicated_Sram, and "
    "in Sram_Only its command stream and weights. Not in it: {tensors}, and of the firmware its tables of the program "
    "(below 8 KB), variables, stack and code"
)
_ALWAYS = ("latency", "sram")
"""Quantities that are shown whatever was asked."""
_DIGITS = 4
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
        least = min((point.npu_share for point in points if point.npu_share is not None), default=1.0)
        alone += f", which computes {percent(least)} % of the multiplications" if alone and least < 1 else ""
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
    unit = 10.0 ** (math.floor(math.log10(hz)) + 1 - _DIGITS) if hz > 0 else 1.0
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
