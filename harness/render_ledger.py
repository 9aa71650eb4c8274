"""The error ledger as text for people: how far estimates are from counts, and how far the rules are to be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.harness.render import add_row, plain
from ethos_hil.results.ledger.rule_facts import Rules, confidence
from ethos_hil.results.ledger.summary import ESTIMATES, NO_RULE, By, LedgerGroup, LedgerSummary

NOTHING_COUNTED = (
    "no FVP and no board has counted any of this, so nothing here says how far an estimate is off: it is the timing "
    "model against the compiler"
)
_NEAR, _FAR = 1.1, 1.5
"""Ratios up to which an estimate is close, and from which it is far off."""
_OVER_VELA = {"vela_op": "modelled / Vela's estimate", "vela_npu": "modelled / Vela's, without memories"}


def ledger(found: LedgerSummary, rules: Rules, *, top: int) -> RenderableType:
    """Return the text of a ledger.

    Args:
        found: the ledger, summed up.
        rules: what is known of the timing model's rules.
        top: the most groups to show of each table.
    """
    parts: list[RenderableType] = [plain(heading(found))]
    if found.counted:
        heads = {name: f"{title} / counted" for name, title in ESTIMATES.items()}
        parts += ["", _table(found.by, found.counted, heads, top)]
    if found.estimated:
        why = "not counted by anybody: the timing model against the compiler" if found.counted else NOTHING_COUNTED
        parts += ["", plain(why), _table(found.by, found.estimated, _OVER_VELA, top)]
    if found.by is By.RULE:
        names = dict.fromkeys(each.name for each in (*found.counted, *found.estimated))
        told = [confidence("" if name == NO_RULE else name, rules) for name in names]
        parts += ["", *(plain(line) for line in told)]
    return Group(*parts)


def heading(found: LedgerSummary) -> str:
    """Return the line that says how many rows there are, who counted them, and by how many timing models."""
    text = f"{found.rows:,} rows, {found.references:,} of them counted by an FVP or a board"
    if found.without_ratio:
        text += f", {found.without_ratio:,} of these without a ratio"
    models = ", ".join(f"{name or 'not named'} ({count:,})" for name, count in found.timing_models.items())
    return f"{text}; modelled by timing model {models}" if models else text


def _table(by: By, groups: Sequence[LedgerGroup], heads: Mapping[str, str], top: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(str(by), overflow="fold")
    table.add_column("NPU", overflow="fold")
    table.add_column("rows", justify="right")
    table.add_column("against")
    for head in heads.values():
        table.add_column(f"{head}: median", justify="right")
        table.add_column("worst", justify="right")
    for group in groups[:top]:
        cells: list[Text | str] = []
        for name in heads:
            ratio = group.ratios.get(name)
            cells += ["", ""] if ratio is None else [_ratio(ratio.median), _ratio(ratio.worst)]
        against = ", ".join(f"{name} {count:,}" for name, count in group.against.items())
        held = f", {group.held_out:,} held out" if group.held_out else ""
        add_row(table, group.name, group.where.removeprefix("ethos-"), f"{group.rows:,}", against + held, *cells)
    if len(groups) > top:
        add_row(table, f"{len(groups) - top:,} more; --top N or --json FILE shows them")
    return table


def _ratio(value: float) -> Text:
    far = max(value, 1 / value) if value > 0 else float("inf")
    return Text(f"{value:,.2f}", style="green" if far <= _NEAR else "red" if far >= _FAR else "")
