"""The answer to a budget as text for people: the smallest place that meets it, then what the others lack."""

from __future__ import annotations

from rich.console import Group as Parts
from rich.console import RenderableType
from rich.text import Text

from ethos_hil.base.plain_text import cut, escaped
from ethos_hil.harness.terminal.console import add_row, fixed, number, plain, table_of
from ethos_hil.results.bench import answer_text
from ethos_hil.results.bench.answer import BudgetAnswer

_REASON, _NAMED = 120, 3


def budget_text(found: BudgetAnswer, *, top: int = 40) -> RenderableType:
    """Return the text of an answer.

    Args:
        found: the answer.
        top: the most rows to show.
    """
    shown = answer_text.shown_quantities(found)
    able = [place for place in found.places if not place.refused]
    several = answer_text.several_verdicts(able)
    quantities = map(number, ("clock", *(quantity.name for quantity in shown)))
    verdict = ["verdict"] if several else []
    table = table_of(fixed("NPU"), fixed("memory mode"), *quantities, *verdict, "", padding=(0, 2, 0, 0))
    for place in able[:top]:
        cells = [answer_text.worst(place, quantity) for quantity in shown]
        verdicts = [answer_text.verdicts(place)] if several else []
        remark = answer_text.remark(place)
        add_row(table, place.npu, place.memory_mode, answer_text.clock(place), *cells, *verdicts, remark)
    if len(able) > top:
        add_row(table, f"and {len(able) - top:,} more")
    parts: list[RenderableType] = [_first_line(found), *map(plain, answer_text.explained(found))]
    if able:
        parts += ["", table]
    refused = answer_text.refused_places(found, _NAMED)
    return Parts(*parts, *(plain(f"refused: {places}: {cut(why, _REASON)}") for places, why in refused))


def _first_line(found: BudgetAnswer) -> Text:
    best = found.best
    style = "bold red" if best is None else "bold yellow" if best.doubtful else "bold green"
    return Text(escaped(answer_text.headline(found)), style)
