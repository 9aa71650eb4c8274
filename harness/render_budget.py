"""The answer to a budget as text for people: the smallest place that meets it, then what the others lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Parts
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.harness.render import add_row, plain
from ethos_hil.harness.render_latency import duration, per_second
from ethos_hil.results.bench.answer import BudgetAnswer, BudgetPlace, Lack
from ethos_hil.results.bench.budget import QUANTITIES, Quantity
from ethos_hil.results.clock import frequency
from ethos_hil.results.plain_text import cut, escaped, one_line

_REASON, _NAMED = 120, 3
_ALWAYS = ("latency", "sram")
"""Quantities that are shown whatever was asked."""


def budget_text(found: BudgetAnswer, *, top: int = 40) -> RenderableType:
    """Return the text of an answer.

    Args:
        found: the answer.
        top: the most rows to show.
    """
    asked = [each.quantity.name for each in found.budget.conditions]
    shown = [QUANTITIES[name] for name in dict.fromkeys((*asked, *_ALWAYS))]
    able = [place for place in found.places if not place.refused]
    several = len({point.verdict for place in able for point in place.points}) > 1
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("NPU", "memory mode"):
        table.add_column(title, no_wrap=True)
    for quantity in shown:
        table.add_column(quantity.name, justify="right", no_wrap=True)
    for title in (*(["verdict"] if several else []), ""):
        table.add_column(title)
    for place in able[:top]:
        cells = [_worst(place, quantity) for quantity in shown]
        verdicts = ", ".join(dict.fromkeys(each.verdict for each in place.points))
        add_row(table, place.npu, place.memory_mode, *cells, *([verdicts] if several else []), _remark(place))
    if len(able) > top:
        add_row(table, f"and {len(able) - top:,} more")
    parts: list[RenderableType] = [_first_line(found), *map(plain, _facts(found))]
    if able:
        parts += ["", table]
    return Parts(*parts, *map(plain, _refused(found)))


def _first_line(found: BudgetAnswer) -> Text:
    best = found.best
    models = f" for all {len(found.labels):,}" if len(found.labels) > 1 else ""
    if best is not None:
        text = f"{best.npu} in {best.memory_mode} is the smallest that meets {found.budget}{models}"
        return Text(escaped(text), "bold green")
    nearest = next((each for each in found.places if not each.refused), None)
    known = nearest is not None and all(each.short is not None for each in nearest.lacks)
    beside = f"; the nearest is {nearest.npu} in {nearest.memory_mode}" if nearest is not None and known else ""
    return Text(escaped(f"nothing meets {found.budget}{models}{beside}"), "bold red")


def _refused(found: BudgetAnswer) -> Iterator[str]:
    """Yield a line for each reason, with the places that have it."""
    reasons: dict[str, list[BudgetPlace]] = {}
    for place in found.places:
        if place.refused:
            reasons.setdefault(place.refused.replace(place.npu, "*"), []).append(place)
    for places in reasons.values():
        names = [f"{each.npu.removeprefix('ethos-')} in {each.memory_mode}" for each in places]
        rest = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield f"refused: {', '.join(names[:_NAMED])}{rest}: {cut(one_line(places[0].refused), _REASON)}"


def _facts(found: BudgetAnswer) -> Sequence[str]:
    """Return what is to know before the numbers are believed: whose cycles and clocks they are."""
    points = [point for place in found.places for point in place.points]
    provenances = dict.fromkeys(point.provenance for point in points if point.provenance)
    clocks = dict.fromkeys(f"{frequency(each.clock_hz)} ({each.clock_of})" for each in points if each.clock_hz)
    verdicts = dict.fromkeys(point.verdict for point in points)
    alone = "" if all(each.total_s is not None for each in points) else "; times are of the NPU alone"
    told = f"{', '.join(verdicts)}; cycles are {', '.join(provenances)}; clock {', '.join(clocks)}{alone}"
    return [told] if provenances else []


def _worst(place: BudgetPlace, quantity: Quantity) -> str:
    values = [value for each in place.points if (value := quantity.value(each)) is not None]
    if not values or len(values) < len(place.points):
        return ""
    return shown_quantity(quantity, min(values) if quantity.at_least else max(values))


def _remark(place: BudgetPlace) -> str:
    several = len(place.points) > 1
    return "; ".join(_lack(each, several) for each in place.lacks) or "meets it"


def _lack(lack: Lack, several: bool) -> str:
    quantity = lack.condition.quantity
    of = f" of {one_line(lack.label)}" if several else ""
    if lack.found is None or lack.short is None:
        return f"{quantity.name}{of} is not known"
    side = "too low" if quantity.at_least else "too high"
    return f"{quantity.name}{of} {lack.short:.3g}x {side}"


def shown_quantity(quantity: Quantity, value: float) -> str:
    """Return a figure in the unit that people use."""
    if quantity.name == "fps":
        return per_second(value)
    if quantity.name == "latency":
        return duration(value)
    if quantity.name == "energy":
        return next(f"{value / size:.3g} {unit}" for unit, size in _JOULES if value >= size or unit == "nJ")
    if quantity.name == "cycles":
        return f"{value:,.0f}"
    return next(f"{value / size:,.3g} {unit}" if value < 1000 * size else f"{value / size:,.0f} {unit}"
                for unit, size in _BYTES if value >= size or unit == "B")  # fmt: skip


_JOULES = (("J", 1.0), ("mJ", 1e-3), ("uJ", 1e-6), ("nJ", 1e-9))
_BYTES = (("MB", 2.0**20), ("KB", 2.0**10), ("B", 1.0))
