"""A profile as text for people: totals, the modules or lines that cost most, and the costliest operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group as Parts
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import add_row, plain
from ethos_hil.base.inference_profile import INSTRUCTIONS, WAIT, Buffer, CpuRow, InferenceProfile
from ethos_hil.base.plain_text import share
from ethos_hil.base.record import Op, Record
from ethos_hil.results.profile_view import By, Group, MemoryUse, Rules, Sort, bounds, confidence, groups, memory_use
from ethos_hil.results.table import Fit, ResultTable, TableColumn
from ethos_hil.results.text.record import head, latency_rows, loss_rows

_BAR = 20
_TOP_OPS = 10
"""Operations shown below modules."""
_TOP_CPU = 5


def profile(record: Record, *, by: By, sort: Sort, depth: int, top: int, advice: Sequence[str] = ()) -> RenderableType:
    """Return the text of a profile.

    Args:
        record: of a run with a profile.
        by, sort, depth: see `ethos_hil.results.profile_view.groups`.
        top: the most rows to show; the last row says how many more there are.
        advice: what to do about where the time goes, in sentences.
    """
    facts = Table.grid(padding=(0, 2))
    if record.failure is not None:
        add_row(facts, "failure", record.why)
    for name, text in loss_rows(record):
        add_row(facts, name, text)
    total = sum(op.cycles or 0 for op in record.ops)
    first = next(iter(record.ops), None)
    if first is not None:
        add_row(facts, "NPU", f"{total:,} cycles ({_provenance(record.ops)}), by {first.method or 'estimate'}")
    if record.profile is not None:
        _add_account(facts, record, record.profile, total)
    for name, text in latency_rows(record):
        add_row(facts, name, text)
    used = list(memory_use(record))
    if any(memory.peak for memory in used):
        add_row(facts, "memory", peaks(used))
    for note in record.notes:
        add_row(facts, "note", note)
    parts: list[RenderableType] = [head(record), facts]
    if by is By.MEMORY:
        return Parts(*parts, *tables(used, top))
    if record.ops:
        shown = groups(record.ops, by, sort, depth)
        if by is By.OP:
            parts += ["", ops_table(shown, total, top, record.profile)]
        else:
            parts += ["", groups_table(shown, total, top, by)]
    if record.ops and by is By.MODULE:
        parts += ["", Text("costliest operations", style="bold")]
        parts.append(ops_table(groups(record.ops, By.OP, Sort.CYCLES, 0), total, _TOP_OPS, record.profile))
    if record.profile is not None and any(row.count for row in record.profile.cpu):
        parts += ["", Text("on the CPU", style="bold"), cpu_table(record.profile.cpu, _TOP_CPU)]
    if advice:
        parts += ["", Text("what to do", style="bold")]
        parts += [plain(f"{number}. {sentence}") for number, sentence in enumerate(advice, 1)]
    return Parts(*parts)


def _add_account(facts: Table, record: Record, profile: InferenceProfile, total: int) -> None:
    """Add what bounds the NPU, what the CPU takes, and how long each of the two waits for the other."""
    bound = bounds(record)
    if total and bound:
        macs = sum(cost.macs for cost in profile.costs.values())
        add_row(facts, "bound by", ", ".join(f"{name} {count / total:.0%}" for name, count in bound.items()))
        add_row(facts, "MACs", f"{macs:,}, {macs / (total * profile.macs_per_cycle):.0%} of what the NPU could do")
    counted = [row for row in profile.cpu if row.count is not None]
    if not counted:
        return
    busy = sum(row.count or 0 for row in counted if row.part != WAIT)
    first = counted[0]
    named = "" if first.unit == first.provenance else f" ({first.provenance})"
    add_row(facts, "CPU", f"{busy:,} {first.unit}{named}")
    if busy + total:
        when = "if both have one clock" + (" and an instruction takes one cycle" if first.unit == INSTRUCTIONS else "")
        part = total / (busy + total)
        add_row(facts, "idle", f"CPU {part:.0%} of the time, NPU {1 - part:.0%}, {when}")


def cpu_table(rows: Sequence[CpuRow], top: int) -> Table:
    """Return a table with the CPU's costliest rows, without waiting."""
    working = sorted((row for row in rows if row.part != WAIT), key=lambda row: -(row.count or 0))
    total = sum(row.count or 0 for row in working)
    columns: tuple[TableColumn[CpuRow], ...] = (
        TableColumn("operator", lambda row: row.operator, fit=Fit.CLIPPED),
        TableColumn("part", lambda row: row.part, fit=Fit.WHOLE),
        TableColumn("source", lambda row: row.source, fit=Fit.CLIPPED),
        TableColumn(rows[0].unit, lambda row: row.count or 0, fit=Fit.NUMBER),
        TableColumn("share", lambda row: share(row.count or 0, total), fit=Fit.NUMBER),
    )
    rest = working[top:]
    count = sum(row.count or 0 for row in rest)
    more = (f"and {len(rest):,} more", "", "", f"{count:,}", share(count, total)) if rest else ()
    return ResultTable(columns, working).to_text(top, rest=more)


def groups_table(shown: Sequence[Group], total: int, top: int, by: By) -> Table:
    """Return a table with one row for each group."""
    columns: tuple[TableColumn[Group], ...] = (
        TableColumn(str(by), lambda group: "  " * group.depth + group.name, fit=Fit.CLIPPED),
        TableColumn("rows", lambda group: len(group.ops), fit=Fit.NUMBER),
        TableColumn("cycles", lambda group: group.cycles, fit=Fit.NUMBER),
        TableColumn("share", lambda group: share(group.cycles, total or 1), fit=Fit.NUMBER),
        TableColumn("", lambda group: _bar(group.cycles, total)),
    )
    return ResultTable(columns, shown).to_text(top, rest=_rest(shown[top:], total))


def _bar(part: int, whole: int) -> str:
    return "█" * round(part / whole * _BAR) if whole else ""


def ops_table(shown: Sequence[Group], total: int, top: int, profile: InferenceProfile | None) -> Table:
    """Return a table with one row for each operation; each group has one."""
    costs = profile.costs if profile is not None else {}
    spread: tuple[TableColumn[Op], ...] = (TableColumn("spread", lambda op: op.spread, fit=Fit.NUMBER),)
    bound: tuple[TableColumn[Op], ...] = (
        TableColumn("bound by", lambda op: costs[op.id].bound_by if op.id in costs else "", fit=Fit.WHOLE),
    )
    ops = [op for group in shown for op in group.ops]
    columns: tuple[TableColumn[Op], ...] = (
        TableColumn("NPU op", lambda op: op.npu_op, fit=Fit.CLIPPED),
        TableColumn("TOSA op", lambda op: op.tosa_op, fit=Fit.CLIPPED),
        TableColumn("module", lambda op: op.module, fit=Fit.CLIPPED),
        TableColumn("source", lambda op: op.source, fit=Fit.CLIPPED),
        TableColumn("cycles", _cycles, fit=Fit.NUMBER),
        TableColumn("share", lambda op: "" if op.merged_with else share(op.cycles or 0, total), fit=Fit.NUMBER),
        *(spread if any(op.spread for op in ops) else ()),
        *(bound if costs else ()),
    )
    return ResultTable(columns, ops).to_text(top, rest=_rest(shown[top:], total, before=3))


def _cycles(op: Op) -> int | str:
    return f"with {op.merged_with}" if op.merged_with else op.cycles or 0


def _rest(rest: Sequence[Group], total: int, before: int = 1) -> tuple[str, ...]:
    """Return the cells of a row for what is not shown: how much it is, each cycle once."""
    if not rest:
        return ()
    least = min(group.depth for group in rest)
    cycles = sum(group.cycles for group in rest if group.depth == least)
    return f"and {len(rest):,} more", *[""] * before, f"{cycles:,}", share(cycles, total)


def _provenance(ops: Sequence[Op]) -> str:
    return ", ".join(dict.fromkeys(op.provenance for op in ops))


_INPUT = "(input)"


def peaks(used: Sequence[MemoryUse]) -> str:
    """Return a line with the most that is in use of each memory, and the largest buffers then."""
    by_memory: dict[str, MemoryUse] = {}
    for memory in used:
        if memory.memory not in by_memory or memory.peak > by_memory[memory.memory].peak:
            by_memory[memory.memory] = memory
    return "; ".join(_peak(memory) for memory in by_memory.values() if memory.peak)


def _peak(used: MemoryUse) -> str:
    op, size = used.rows[used.at_peak]
    place = f" ({op.module})" if op.module else ""
    return f"{used.memory} {size:,} bytes at most, in {op.id} {op.npu_op}{place}: {_names(used.living)}"


def _names(living: Sequence[Buffer], most: int = 2) -> str:
    names = ", ".join(f"{buffer.row or 'input'} {buffer.size:,}" for buffer in living[:most])
    return names + (f" and {len(living) - most} more" if len(living) > most else "")


def tables(used: Sequence[MemoryUse], top: int) -> list[RenderableType]:
    """Return, for each memory of each delegate, its rows in the order of the program and what is in it at its peak.

    Args:
        used: the memories.
        top: the most rows to show of each; where there are more, those that use the most.
    """
    parts: list[RenderableType] = []
    for memory in used:
        parts += ["", Text(f"{memory.memory} in use", style="bold"), _rows(memory, top)]
        parts += ["", Text(f"in {memory.memory} at its peak", style="bold"), _living(memory, top)]
    return parts


def _rows(used: MemoryUse, top: int) -> Table:
    columns: tuple[TableColumn[tuple[Op, int]], ...] = (
        TableColumn("row", lambda row: row[0].id, fit=Fit.WHOLE),
        TableColumn("NPU op", lambda row: row[0].npu_op, fit=Fit.CLIPPED),
        TableColumn("module", lambda row: row[0].module, fit=Fit.CLIPPED),
        TableColumn("source", lambda row: row[0].source, fit=Fit.CLIPPED),
        TableColumn("bytes", lambda row: row[1], fit=Fit.NUMBER),
        TableColumn("", lambda row: _bar(row[1], used.peak)),
    )
    largest = sorted(range(len(used.rows)), key=lambda at: -used.rows[at][1])[:top]
    rest = (f"and {len(used.rows) - top:,} with less",) if len(used.rows) > top else ()
    return ResultTable(columns, [used.rows[at] for at in sorted(largest)]).to_text(rest=rest)


def _living(used: MemoryUse, top: int) -> Table:
    def row(at: int) -> str:
        """Return the id of a row. A damaged record has tensors that outlive all of them."""
        return used.rows[max(0, min(at, len(used.rows) - 1))][0].id

    columns: tuple[TableColumn[Buffer], ...] = (
        TableColumn("written by", lambda buffer: buffer.row or _INPUT, fit=Fit.WHOLE),
        TableColumn("tensor", lambda buffer: buffer.tensor, fit=Fit.CLIPPED),
        TableColumn("bytes", lambda buffer: buffer.size, fit=Fit.NUMBER),
        TableColumn("lives from", lambda buffer: row(buffer.first), fit=Fit.WHOLE),
        TableColumn("to", lambda buffer: row(buffer.last), fit=Fit.WHOLE),
    )
    return ResultTable(columns, used.living).to_text(top)


_MODELLED = "modelled"


def rule_lines(record: Record, rules: Rules) -> Iterator[Text]:
    """Yield a line for each rule that decides modelled cycles of a profile, those of most cycles first; none where the
    target counted, or the record does not say.
    """
    costs = record.profile.costs if record.profile is not None else {}
    shares: dict[str, int] = {}
    for op in record.ops:
        cost = costs.get(op.id)
        if cost is not None and op.provenance == _MODELLED:
            shares[cost.rule] = shares.get(cost.rule, 0) + (cost.modelled or 0)
    total = sum(shares.values())
    if not total or not any(shares):
        return
    yield Text("")
    yield Text("where modelled cycles come from", style="bold")
    for rule, cycles in sorted(shares.items(), key=lambda item: (-item[1], item[0])):
        yield plain(f"{cycles / total:.0%}: {confidence(rule, rules)}")
