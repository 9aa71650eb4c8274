"""Comparisons as text: of two runs, by cause; and of two records, operation by operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from ethos_hil.base.console import add_row, folded, plain, table_of, whole
from ethos_hil.results.comparison import ProfileComparison, RowChange, RowDifference
from ethos_hil.results.gate.change import VERDICT, Cause, Change, Effect, RunComparison, Word, text_of
from ethos_hil.results.table import Fit, ResultTable, TableColumn

_COLOURS = {RowChange.SLOWER: "red", RowChange.FASTER: "green", RowChange.NEW: "red", RowChange.VANISHED: "green"}


def comparison(result: ProfileComparison, *, everything: bool, top: int) -> RenderableType:
    """Return the text of a comparison.

    Args:
        result: the comparison.
        everything: whether rows that are equal are shown.
        top: the most rows to show of the NPU and of the CPU; the last row says how many more there are.
    """
    facts = Table.grid(padding=(0, 2))
    add_row(facts, "NPU", f"{_total(result.npu)} cycles ({result.provenance})")
    if result.cpu:
        add_row(facts, "CPU", f"{_total(result.cpu)} {result.unit}")
    counts = Counter(row.change for row in result.npu)
    add_row(facts, "rows", ", ".join(f"{counts[change]} {change}" for change in RowChange if counts[change]))
    for note in result.notes:
        add_row(facts, "note", note)
    parts: list[RenderableType] = [facts]
    for rows, unit in ((result.npu, "cycles"), (result.cpu, result.unit)):
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
    rest = rows[top:]
    more = ("", "", f"{sum(row.delta for row in rest):+,}", f"{len(rest)} more rows") if rest else ()
    table = ResultTable(_ROW_COLUMNS, rows).to_text(top, rest=more)
    table.caption = f"{unit} of one inference"
    return table


def _change(row: RowDifference) -> Text:
    pieces = f" ({len(row.before)} -> {len(row.after)})" if row.change in (RowChange.SPLIT, RowChange.FUSED) else ""
    return Text(f"{row.change}{pieces}", style=_COLOURS.get(row.change, ""))


_ROW_COLUMNS: tuple[TableColumn[RowDifference], ...] = (
    TableColumn("before", lambda row: f"{row.old:,}", fit=Fit.NUMBER),
    TableColumn("after", lambda row: f"{row.new:,}", fit=Fit.NUMBER),
    TableColumn("difference", lambda row: f"{row.delta:+,}", fit=Fit.NUMBER),
    TableColumn("change", _change, fit=Fit.WHOLE),
    TableColumn("operation", lambda row: row.name, fit=Fit.CLIPPED),
    TableColumn("module", lambda row: row.module, fit=Fit.CLIPPED),
    TableColumn("line", lambda row: row.source, fit=Fit.CLIPPED),
)

_WORD_COLOURS = {Word.REGRESSED: "red", Word.MISSING: "red", Word.INCOMPARABLE: "red", Word.UNSTABLE: "red",
            Word.IMPROVED: "green", Word.ACCEPTED: "green"}  # fmt: skip
_ROWS = 3
"""How many operations of a change are named."""


def run_comparison(result: RunComparison, *, top: int) -> RenderableType:
    """Return the text of a comparison.

    Args:
        result: the comparison.
        top: the most changes to show of each cause.
    """
    head = Text("passed" if result.passed else "failed", style="green" if result.passed else "red")
    head.append(f"  {result.before} -> {result.after}")
    facts = Table.grid(padding=(0, 2))
    add_row(facts, "series", f"{sum(result.counts.values()):,}: {counts(result)}")
    for gap in result.gaps:
        add_row(facts, "missing", gap)
    for note in result.notes:
        add_row(facts, "note", note)
    parts: list[RenderableType] = [plain_head(head), facts]
    for (cause, detail), changes in result.by_cause().items():
        parts += ["", plain(f"{detail or _title(cause)} ({len(changes):,})"), _table(changes, top)]
    return Group(*parts)


def counts(result: RunComparison) -> str:
    """Return how many series have each word, in one line."""
    return ", ".join(f"{result.counts[word]:,} {word}" for word in Word if result.counts.get(word))


def plain_head(head: Text) -> Text:
    """Return a first line with the names in it as they are shown."""
    shown = plain(head.plain)
    shown.spans = head.spans if shown.plain == head.plain else []
    return shown


def _title(cause: Cause) -> str:
    return f"cause: {cause}" if cause else "no cause is known"


def _table(changes: Sequence[Change], top: int) -> Table:
    numbers = (Column(name, justify="right", overflow="fold") for name in ("before", "after", "change"))
    table = table_of(*whole(""), *folded("test or model"), *whole("NPU", "metric"), *numbers)
    for change in changes[:top]:
        word = Text(f"{change.word}", style=_WORD_COLOURS.get(change.word, "yellow"))
        if change.effect is Effect.FAIL:
            word.stylize("bold")
        metric = change.metric if change.metric == VERDICT else f"{change.metric} ({change.provenance})"
        table.add_row(word, plain(change.subject.name), plain(change.subject.npu), plain(metric),
                      plain(text_of(change.before)), plain(text_of(change.after)), change.percent)  # fmt: skip
        for row in change.rows[:_ROWS]:
            place = " ".join(filter(None, (row.name, row.module, row.source)))
            table.add_row("", plain(f"  {place}: {row.change}"), "", "", f"{row.old:,}", f"{row.new:,}",
                          f"{row.delta:+,}")  # fmt: skip
        if len(change.rows) > _ROWS:
            rest = change.rows[_ROWS:]
            table.add_row("", f"  {len(rest)} more operations", "", "", "", "", f"{sum(row.delta for row in rest):+,}")
    if len(changes) > top:
        table.add_row("", f"{len(changes) - top:,} more; --top N or --json FILE shows them")
    return table
