"""A comparison of two profiles as text for people: the totals, and the rows that moved them most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.harness.terminal.console import add_row, plain
from ethos_hil.results.comparison import ProfileComparison, RowChange, RowDifference

_COLOURS = {RowChange.SLOWER: "red", RowChange.FASTER: "green", RowChange.NEW: "red", RowChange.VANISHED: "green"}


def comparison(found: ProfileComparison, *, everything: bool, top: int) -> RenderableType:
    """Return the text of a comparison.

    Args:
        found: the comparison.
        everything: whether rows that are equal are shown.
        top: the most rows to show of the NPU and of the CPU; the last row says how many more there are.
    """
    facts = Table.grid(padding=(0, 2))
    add_row(facts, "NPU", f"{_total(found.npu)} cycles ({found.provenance})")
    if found.cpu:
        add_row(facts, "CPU", f"{_total(found.cpu)} {found.unit}")
    counts = Counter(row.change for row in found.npu)
    add_row(facts, "rows", ", ".join(f"{counts[change]} {change}" for change in RowChange if counts[change]))
    for note in found.notes:
        add_row(facts, "note", note)
    parts: list[RenderableType] = [facts]
    for rows, unit in ((found.npu, "cycles"), (found.cpu, found.unit)):
        shown = [row for row in rows if everything or row.change is not RowChange.UNCHANGED]
        if shown:
            parts += ["", row_table(sorted(shown, key=lambda row: -abs(row.delta)), unit, top)]
    return Group(*parts)


def _total(rows: Sequence[RowDifference]) -> str:
    old, new = sum(row.old for row in rows), sum(row.new for row in rows)
    share = f", {(new - old) / old:+.1%}" if old else ""
    return f"{old:,} -> {new:,} ({new - old:+,}{share})"


def row_table(rows: Sequence[RowDifference], unit: str, top: int) -> Table:
    """Return a table of the first rows; its last row says how many more there are."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("before", "after", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("change", no_wrap=True)
    for name in ("operation", "module", "line"):
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    for row in rows[:top]:
        pieces = f" ({len(row.before)} -> {len(row.after)})" if row.change in (RowChange.SPLIT, RowChange.FUSED) else ""
        table.add_row(
            f"{row.old:,}",
            f"{row.new:,}",
            f"{row.delta:+,}",
            Text(f"{row.change}{pieces}", style=_COLOURS.get(row.change, "")),
            plain(row.name),
            plain(row.module),
            plain(row.source),
        )
    if len(rows) > top:
        rest = rows[top:]
        delta = sum(row.delta for row in rest)
        table.add_row("", "", f"{delta:+,}", f"{len(rest)} more rows", "", "", "")
    table.caption = f"{unit} of one inference"
    return table
