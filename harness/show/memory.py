"""The use of memory over an inference as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.inference_profile import Buffer
from ethos_hil.harness.profile.view import MemoryUse
from ethos_hil.harness.terminal.console import add_row, plain

_BAR = 20
_INPUT = "(input)"


def peaks(used: Sequence[MemoryUse]) -> str:
    """Return a line with the most that is in use of each memory, and the largest buffers then."""
    by_memory: dict[str, MemoryUse] = {}
    for each in used:
        if each.memory not in by_memory or each.peak > by_memory[each.memory].peak:
            by_memory[each.memory] = each
    return "; ".join(_peak(each) for each in by_memory.values() if each.peak)


def _peak(used: MemoryUse) -> str:
    op, size = used.rows[used.at_peak]
    place = f" ({op.module})" if op.module else ""
    return f"{used.memory} {size:,} bytes at most, in {op.id} {op.npu_op}{place}: {_names(used.living)}"


def _names(living: Sequence[Buffer], most: int = 2) -> str:
    told = ", ".join(f"{each.row or 'input'} {each.size:,}" for each in living[:most])
    return told + (f" and {len(living) - most} more" if len(living) > most else "")


def tables(used: Sequence[MemoryUse], top: int) -> list[RenderableType]:
    """Return, for each memory of each delegate, its rows in the order of the program and what is in it at its peak.

    Args:
        used: the memories.
        top: the most rows to show of each; where there are more, those that use the most.
    """
    parts: list[RenderableType] = []
    for each in used:
        parts += ["", Text(f"{each.memory} in use", style="bold"), _rows(each, top)]
        parts += ["", Text(f"in {each.memory} at its peak", style="bold"), _living(each, top)]
    return parts


def _rows(used: MemoryUse, top: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("row", no_wrap=True)
    for name in ("NPU op", "module", "source"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("")
    largest = sorted(range(len(used.rows)), key=lambda at: -used.rows[at][1])[:top]
    for at in sorted(largest):
        op, size = used.rows[at]
        bar = "█" * round(size / (used.peak or 1) * _BAR)
        add_row(table, op.id, op.npu_op, op.module, op.source, f"{size:,}", bar)
    if len(used.rows) > top:
        add_row(table, plain(f"and {len(used.rows) - top:,} with less"), "", "", "", "", "")
    return table


def _living(used: MemoryUse, top: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("written by", no_wrap=True)
    table.add_column("tensor", no_wrap=True, overflow="ellipsis")
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("lives from", no_wrap=True)
    table.add_column("to", no_wrap=True)
    ids = [op.id for op, _ in used.rows]
    for each in used.living[:top]:
        add_row(table, each.row or _INPUT, each.tensor, f"{each.size:,}", ids[each.first], ids[each.last])
    if len(used.living) > top:
        add_row(table, plain(f"and {len(used.living) - top:,} more"), "", "", "", "")
    return table
