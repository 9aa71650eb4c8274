"""A profile's rows in groups, the NPU's working memory in an inference, and how good the timing model's rules are.

Rows are grouped by module, by source line, by kind of operation, or each by itself. Of the memory it is told how much
of it is in use while each row runs, and who is in it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.inference_profile import Buffer
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import JOB, Op, Record


@dataclass(frozen=True)
class MemoryUse:
    """One memory during one call of a delegate. Computed from the command stream.

    Attributes:
        memory: Vela's name of it.
        rows: the operations of the call, in order, each with the bytes that must not change while it runs.
        buffers: all that live in it at some time.
    """

    memory: str
    rows: tuple[tuple[Op, int], ...]
    buffers: tuple[Buffer, ...]

    @cached_property
    def peak(self) -> int:
        """The most bytes in use."""
        return max((size for _, size in self.rows), default=0)

    @cached_property
    def at_peak(self) -> int:
        """The number of the first row during which the most bytes are in use."""
        return max(range(len(self.rows)), key=lambda at: self.rows[at][1], default=0)

    @property
    def living(self) -> tuple[Buffer, ...]:
        """What is in use then, the largest first."""
        at = self.at_peak
        buffers = (buffer for buffer in self.buffers if buffer.first <= at <= buffer.last)
        return tuple(sorted(buffers, key=lambda buffer: -buffer.size))


def memory_use(record: Record) -> Iterator[MemoryUse]:
    """Yield the use of each memory in each call of a delegate, in the order of the program."""
    buffers = record.profile.buffers if record.profile is not None else ()
    for instruction, memory in dict.fromkeys((buffer.instruction, buffer.memory) for buffer in buffers):
        mine = tuple(buffer for buffer in buffers if (buffer.instruction, buffer.memory) == (instruction, memory))
        ops = [op for op in record.ops if op.instruction == instruction and op.id != JOB]
        yield MemoryUse(memory, tuple(zip(ops, _in_use(mine, len(ops)), strict=True)), mine)


def _in_use(buffers: Iterable[Buffer], rows: int) -> list[int]:
    """Return the bytes in use during each row. A damaged record has buffers that live beyond the rows."""
    edges = [0] * (rows + 1)
    for buffer in buffers:
        edges[max(0, min(buffer.first, rows))] += buffer.size
        edges[max(0, min(buffer.last + 1, rows))] -= buffer.size
    return [max(0, size) for size in accumulate(edges[:rows])]


def bounds(record: Record) -> dict[str, int]:
    """Return the cycles of the NPU by what bounds them, the most first."""
    costs = record.profile.costs if record.profile is not None else {}
    cycles: dict[str, int] = {}
    for op in record.ops:
        cost = costs.get(op.id)
        if cost is not None and cost.bound_by and op.cycles:
            cycles[cost.bound_by] = cycles.get(cost.bound_by, 0) + op.cycles
    return dict(sorted(cycles.items(), key=lambda item: -item[1]))


UNKNOWN = "(unknown)"


class By(enum.StrEnum):
    """What rows are grouped by."""

    MODULE = "module"
    LINE = "line"
    TYPE = "type"
    OP = "op"
    MEMORY = "memory"
    """No groups: the bytes in use while each row runs."""


class Sort(enum.StrEnum):
    """The order of groups."""

    PROGRAM = "program"
    CYCLES = "cycles"


@dataclass(frozen=True)
class Group:
    """Rows that are shown as one.

    Attributes:
        name: what they have in common; for a module the last part of its path.
        depth: how deep a module is in the model; 0 for everything else.
        ops: in program order.
    """

    name: str
    depth: int
    ops: tuple[Op, ...]

    @property
    def cycles(self) -> int:
        """NPU cycles of all its rows."""
        return sum(op.cycles or 0 for op in self.ops)


def groups(ops: Sequence[Op], by: By, sort: Sort, depth: int) -> list[Group]:
    """Return rows in groups. No row is in two groups of one depth, and none is left out.

    Args:
        ops: of a record.
        by: what to group by; not `MEMORY`.
        sort: by cycles, the most first, or in the order of the program. Modules stay below the module they are in.
        depth: how many levels of modules to show.
    """
    if by is By.MODULE:
        return _tree(ops, "", sort, depth)
    if by is By.OP:
        kinds = [Group(op.npu_op, 0, (op,)) for op in ops]
    else:
        name = _line if by is By.LINE else _type
        members: dict[str, list[Op]] = {}
        for op in ops:
            members.setdefault(name(op), []).append(op)
        kinds = [Group(name, 0, tuple(rows)) for name, rows in members.items()]
    return _sort(kinds, sort)


def _line(op: Op) -> str:
    return op.source or UNKNOWN


def _type(op: Op) -> str:
    return op.npu_op


def _sort(groups: list[Group], sort: Sort) -> list[Group]:
    return sorted(groups, key=lambda group: -group.cycles) if sort is Sort.CYCLES else groups


def _tree(ops: Sequence[Op], path: str, sort: Sort, depth: int, level: int = 0) -> list[Group]:
    """Return the modules below `path`, each followed by those below it."""
    members: dict[str, list[Op]] = {}
    for op in ops:
        if op.module != path:
            rest = op.module.removeprefix(f"{path}.") if path else op.module
            members.setdefault(rest.partition(".")[0], []).append(op)
    groups = [Group(name, level, tuple(rows)) for name, rows in members.items()]
    own = tuple(op for op in ops if op.module == path and op.id != JOB)
    if own and (groups or not path):
        groups.append(Group("(itself)", level, own))
    jobs = tuple(op for op in ops if op.id == JOB)
    if jobs:
        groups.append(Group(JOB, level, jobs))
    shown = []
    for group in _sort(groups, sort):
        shown.append(group)
        below = f"{path}.{group.name}".lstrip(".")
        if level + 1 < depth and group.name in members:
            inside = _tree(group.ops, below, sort, depth, level + 1)
            shown += inside if len(inside) > 1 else []
    return shown


@dataclass(frozen=True)
class RuleFacts:
    """A rule of the timing model. Errors are modelled over counted, less one: 0.03 is 3 % too many cycles.

    Attributes:
        title: what it says, in a few words.
        source: where it comes from: a manual, a header, Vela's code, a fit.
        validated_on: what it was held against, "12 single operations on an FVP"; "" where it was not.
        median: the median of the errors' sizes; `worst` is the error that is farthest from 0. None where not known.
    """

    title: str
    source: str
    validated_on: str = ""
    median: float | None = None
    worst: float | None = None


Rules = Mapping[str, RuleFacts]
"""Facts by the id of the rule, as `OpCost.rule` has it."""


def confidence(rule: str, rules: Rules) -> str:
    """Return one line: which rule a modelled number comes from, and how far it is to be trusted."""
    facts = rules.get(rule)
    if not rule:
        return "no rule is known, so nothing says how far the modelled cycles are off"
    if facts is None:
        return one_line(f"{rule}: nothing is known of this rule here")
    if not facts.validated_on:
        return one_line(f"{rule}: {facts.title} ({facts.source}); not validated")
    errors = [f"{word} {value:{sign}.1%}" for word, value, sign in
              (("median error", facts.median, ""), ("worst", facts.worst, "+")) if value is not None]  # fmt: skip
    figures = f": {', '.join(errors)}" if errors else ""
    return one_line(f"{rule}: {facts.title} ({facts.source}); validated on {facts.validated_on}{figures}")
