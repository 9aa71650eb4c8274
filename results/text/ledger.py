"""The error ledger as text for people: how far estimates are from counts, and how far the rules are to be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import add_row, folded, plain, right, table_of
from ethos_hil.results.ledger.ledger_row import LedgerRow
from ethos_hil.results.ledger.summary import (
    NOT_COUNTED,
    NOTHING_COUNTED,
    OVER_COUNT,
    OVER_VELA,
    Grouping,
    LedgerGroup,
    LedgerSummary,
    RatioSpread,
    Rules,
    heading,
    trust,
)

_MODELLED = "modelled"
_NEAR, _FAR = 1.1, 1.5
"""Ratios up to which an estimate is close, and from which it is far off."""


def ledger(summary: LedgerSummary, rules: Rules, *, top: int) -> RenderableType:
    """Return the text of a ledger.

    Args:
        summary: the ledger, summed up.
        rules: what is known of the timing model's rules.
        top: the most groups to show of each table.
    """
    parts: list[RenderableType] = [plain(heading(summary))]
    if summary.counted:
        parts += ["", _table(summary.by, summary.counted, OVER_COUNT, top)]
    if summary.estimated:
        why = NOT_COUNTED if summary.counted else NOTHING_COUNTED
        parts += ["", plain(why), _table(summary.by, summary.estimated, OVER_VELA, top)]
    if summary.rules:
        parts += ["", plain("Where modelled cycles come from:"), *(plain(line) for line in trust(summary, rules))]
    return Group(*parts)


def _table(by: Grouping, groups: Sequence[LedgerGroup], heads: Mapping[str, str], top: int) -> Table:
    first = _MODELLED if _MODELLED in heads else next(iter(heads))
    ratios = [title for head in heads.values() for title in (head, "worst")]
    table = table_of(
        *folded(str(by), "NPU"),
        *right("rows"),
        "against",
        *right(*ratios, no_wrap=False),
        *folded("worst " + ("modelled" if first == _MODELLED else "ratio")),
    )
    for group in groups[:top]:
        cells: list[Text | str] = []
        for name in heads:
            ratio = group.ratios.get(name)
            cells += ["", ""] if ratio is None else [_median(ratio), _ratio(ratio.worst)]
        against = ", ".join(f"{name} {count:,}" for name, count in group.against.items())
        held = f", {group.held_out:,} held out" if group.held_out else ""
        farthest = group.ratios.get(first)
        place = "" if farthest is None else _place(farthest.worst_row)
        add_row(table, group.name, group.where.removeprefix("ethos-"), f"{group.rows:,}", against + held, *cells, place)
    if len(groups) > top:
        add_row(table, f"{len(groups) - top:,} more; --top N or --json FILE shows them")
    return table


def _place(row: LedgerRow) -> str:
    """Return which row it is, without what its group says."""
    return " ".join(filter(None, (row.case, row.row, row.npu.removeprefix("ethos-"), row.memory_mode)))


def _median(ratio: RatioSpread) -> Text:
    """Return the median, and how far ratios are from 1 by the median."""
    error = f" ±{ratio.error:.0%}" if math.isfinite(ratio.error) else ""
    return Text.assemble(_ratio(ratio.median), (error, "dim"))


def _ratio(value: float) -> Text:
    far = max(value, 1 / value) if value > 0 else float("inf")
    return Text(f"{value:,.2f}", style="green" if far <= _NEAR else "red" if far >= _FAR else "")
