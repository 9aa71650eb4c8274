"""The error ledger as text for people: how far estimates are from counts, and how far the rules are to be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import plain
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
from ethos_hil.results.table import Fit, ResultTable, TableColumn

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
    columns: list[TableColumn[LedgerGroup]] = [
        TableColumn(str(by), lambda group: group.name, fit=Fit.FOLDED),
        TableColumn("NPU", lambda group: group.where.removeprefix("ethos-"), fit=Fit.FOLDED),
        TableColumn("rows", lambda group: f"{group.rows:,}", fit=Fit.NUMBER),
        TableColumn("against", _against),
    ]
    for name, head in heads.items():
        columns += _ratio_columns(name, head)
    title = "worst " + ("modelled" if first == _MODELLED else "ratio")
    columns.append(TableColumn(title, lambda group: _place(group.ratios.get(first)), fit=Fit.FOLDED))
    rest = (f"{len(groups) - top:,} more; --top N or --json FILE shows them",) if len(groups) > top else ()
    return ResultTable(columns, groups).to_text(top, rest=rest)


def _ratio_columns(name: str, head: str) -> Iterator[TableColumn[LedgerGroup]]:
    def worst(group: LedgerGroup) -> Text | str:
        return _ratio(group.ratios[name].worst) if name in group.ratios else ""

    yield TableColumn(head, lambda group: _median(group.ratios.get(name)), fit=Fit.TITLED_NUMBER)
    yield TableColumn("worst", worst, fit=Fit.TITLED_NUMBER)


def _against(group: LedgerGroup) -> str:
    counts = ", ".join(f"{name} {count:,}" for name, count in group.against.items())
    return counts + (f", {group.held_out:,} held out" if group.held_out else "")


def _place(ratio: RatioSpread | None) -> str:
    """Return which row is the worst, without what its group says."""
    if ratio is None:
        return ""
    row = ratio.worst_row
    return " ".join(filter(None, (row.case, row.row, row.npu.removeprefix("ethos-"), row.memory_mode)))


def _median(ratio: RatioSpread | None) -> Text | str:
    """Return the median, and how far ratios are from 1 by the median."""
    if ratio is None:
        return ""
    error = f" ±{ratio.error:.0%}" if math.isfinite(ratio.error) else ""
    return Text.assemble(_ratio(ratio.median), (error, "dim"))


def _ratio(value: float) -> Text:
    far = max(value, 1 / value) if value > 0 else float("inf")
    return Text(f"{value:,.2f}", style="green" if far <= _NEAR else "red" if far >= _FAR else "")
