"""Two records of one question, operation by operation.

Rows are aligned by delegate, TOSA operator, module and operators, never by their numbers, which shift when one comes or
goes. What is left over is joined where it computes the same operators at the same place: so an operation that was split
or fused stands against its parts. Rows of both sides add up to the totals, so their differences do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import StrEnum

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.inference_profile import KERNEL, WAIT, CpuRow
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.base.verdict import Verdict


class RowChange(StrEnum):
    """What became of some rows."""

    UNCHANGED = "unchanged"
    FASTER = "faster"
    SLOWER = "slower"
    SPLIT = "split"
    FUSED = "fused"
    NEW = "new"
    VANISHED = "vanished"


class Incomparable(UsageError):
    """Two records do not answer one question.

    Attributes:
        code: a stable word for what differs.
    """

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.code = code


@dataclass(frozen=True)
class RowDifference:
    """Rows of two records that stand for the same work.

    Attributes:
        change: what became of them.
        before, after: ids of the rows.
        name: the operation, as the later record has it if it is there.
        module, source: of the first row.
        old, new: their cycles or instructions; 0 for no rows.
    """

    change: RowChange
    before: tuple[str, ...]
    after: tuple[str, ...]
    name: str
    module: str
    source: str
    old: int
    new: int

    @property
    def delta(self) -> int:
        """How many more there are now."""
        return self.new - self.old


@dataclass(frozen=True)
class ProfileComparison:
    """What is different.

    Attributes:
        provenance: of the cycles of both records.
        npu: differences of the NPU's operations, in the order of the later record, vanished ones last. All rows of both
            records are in them.
        cpu: the same of the CPU's rows, in `unit`; empty where one record has no counts.
        unit: "instructions" or "cycles"; "" where `cpu` is empty.
        notes: what is not equal and may be the cause.
    """

    provenance: str
    npu: tuple[RowDifference, ...]
    cpu: tuple[RowDifference, ...]
    unit: str
    notes: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether all counts are equal."""
        return all(row.change is RowChange.UNCHANGED for row in (*self.npu, *self.cpu))


def compare(before: Record, after: Record) -> ProfileComparison:
    """Compare two records.

    Raises:
        Incomparable: they are of different NPUs, targets or models of time, or one was not verified, or has no cycles.
    """
    provenance = _require_comparable(before, after)
    npu = npu_differences(before.ops, after.ops)
    unit, old, new = _common_rows(before, after)
    return ProfileComparison(
        provenance, npu, _differences(_cpu_rows(old), _cpu_rows(new)), unit, tuple(_notes(before, after))
    )


def npu_differences(before: Iterable[Op], after: Iterable[Op]) -> tuple[RowDifference, ...]:
    """Compare the NPU's operations of two records of one question, whatever has changed since."""
    return _differences(_npu_rows(before), _npu_rows(after))


def _require_comparable(before: Record, after: Record) -> str:
    """Return the provenance of the cycles of both. Raises Incomparable."""
    for name, record in (("first", before), ("second", after)):
        if record.verdict is not Verdict.VERIFIED:
            raise Incomparable(
                "verdict",
                f"the {name} record is {record.verdict}, not verified",
                "compare runs whose answers are right",
            )
        if not any(op.cycles is not None for op in record.ops):
            raise Incomparable(
                "cycles", f"no operation of the {name} record has cycles", "take it with `ethos-hil profile`"
            )
    sides: tuple[tuple[str, str, Callable[[Record], str]], ...] = (
        ("npu", "NPU", lambda record: record.npu),
        ("memory-mode", "memory mode", lambda record: record.memory_mode),
        ("system-config", "system configuration", lambda record: record.system_config),
        ("provenance", "provenance of cycles", _provenance),
        ("target", "target", _place),
        ("fvp", "FVP", lambda record: record.versions.get("fvp", "")),
        ("timing-model", "timing model", lambda record: record.timing_model),
    )
    for code, name, of in sides:
        old, new = of(before), of(after)
        if old != new and (code != "timing-model" or (old and new)):  # records of before do not name theirs
            raise Incomparable(code, f"the {name} differs: {old or 'unknown'} and {new or 'unknown'}", (
                "take both on one target, for one NPU, in one memory mode"
            ))  # fmt: skip
    return _provenance(before)


def _provenance(record: Record) -> str:
    return ", ".join(sorted({op.provenance for op in record.ops if op.cycles is not None}))


def _place(record: Record) -> str:
    """Return where cycles come from. All virtual boards have one model of time; FVPs and boards do not."""
    return record.target.kind if _provenance(record) == "modelled" else record.target.name


def _notes(before: Record, after: Record) -> Iterator[str]:
    questions = [record.artifact.question if record.artifact is not None else "" for record in (before, after)]
    if all(questions) and questions[0] != questions[1]:
        yield "what was asked differs: the model, its inputs, how it is quantised, or what is left to the CPU"
    if before.model != after.model:
        yield f"the models have different names: {before.model} and {after.model}"
    if before.method != after.method:
        yield f"different methods of the program ran: {before.method} and {after.method}"
    if before.artifact is not None and after.artifact is not None:
        same = before.artifact.sha256 == after.artifact.sha256
        yield "the program is the same, byte for byte" if same else "the program is another one"
    for name in sorted({*before.versions, *after.versions}):
        old, new = before.versions.get(name, "none"), after.versions.get(name, "none")
        if old != new:
            yield f"{name} {old} became {new}"
    old_ways, new_ways = ({op.method for op in record.ops if op.method} for record in (before, after))
    if old_ways != new_ways:
        yield f"cycles were found in different ways: {', '.join(sorted(old_ways))} and {', '.join(sorted(new_ways))}"


@dataclass(frozen=True)
class _ComparedRow:
    """A row of one record. Its `parts` are operators at their modules, and lines; rows that share one are compared."""

    at: int
    id: str
    name: str
    module: str
    source: str
    count: int
    key: Hashable
    parts: tuple[Hashable, ...] = ()


_Pair = tuple[Sequence[_ComparedRow], Sequence[_ComparedRow]]
"""Rows of both records that stand against each other."""


def _npu_rows(ops: Iterable[Op]) -> list[_ComparedRow]:
    """Return the rows of operations, without jobs that cost nothing, which only some ways of finding cycles have."""
    ops = [op for op in ops if op.id != JOB or op.cycles]
    # A delegate's call has a number: its instruction shifts when one is added on the CPU.
    calls = {instruction: number for number, instruction in enumerate(dict.fromkeys(op.instruction for op in ops))}
    return [
        _ComparedRow(at, op.id, op.npu_op or op.id, op.module, op.source, op.cycles or 0,
             (op.id == JOB, calls[op.instruction], op.tosa_op, op.module, op.aten_ops), tuple(_parts(op)))
        for at, op in enumerate(ops)
    ]  # fmt: skip


def _parts(op: Op) -> Iterator[Hashable]:
    places = [("module", op.module), *(("line", line) for line in op.sources or (op.source,) if line)]
    return ((operator, place) for operator in op.aten_ops for place in places)


def _cpu_rows(rows: Iterable[CpuRow]) -> list[_ComparedRow]:
    return [
        _ComparedRow(at, row.id, row.operator if row.part == KERNEL else f"{row.operator}: {row.part}", row.module,
             row.source, row.count or 0, (row.operator, row.part, row.module))
        for at, row in enumerate(rows)
    ]  # fmt: skip


def _common_rows(before: Record, after: Record) -> tuple[str, Sequence[CpuRow], Sequence[CpuRow]]:
    """Return the unit and the rows that both records count; waiting for the NPU is its own rows."""
    old, new = (
        [row for row in (record.profile.cpu if record.profile else ()) if row.count is not None and row.part != WAIT]
        for record in (before, after)
    )
    units = {row.unit for row in (*old, *new)}
    return (units.pop(), old, new) if old and new and len(units) == 1 else ("", (), ())


def _differences(old: Sequence[_ComparedRow], new: Sequence[_ComparedRow]) -> tuple[RowDifference, ...]:
    pairs = sorted(_align(old, new), key=lambda pair: tuple(min((row.at for row in side), default=len(new))
                                                               for side in pair[::-1]))  # fmt: skip
    differences = tuple(_difference(left, right) for left, right in pairs)
    for counts, rows in (([row.old for row in differences], old), ([row.new for row in differences], new)):
        if sum(counts) != sum(row.count for row in rows):
            raise AssertionError("rows of a comparison do not add up to the totals")
    return differences


def _align(old: Sequence[_ComparedRow], new: Sequence[_ComparedRow]) -> Iterator[_Pair]:
    """Yield rows that stand against each other; every row is in one pair."""
    sides = _by_key(old), _by_key(new)
    left: list[_ComparedRow] = []
    right: list[_ComparedRow] = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        mine, other = sides[0].get(key, []), sides[1].get(key, [])
        if len(mine) == len(other):
            yield from (([first], [second]) for first, second in zip(mine, other, strict=True))
        elif mine and other:
            yield mine, other
        else:
            left += mine
            right += other
    yield from _join(left, right)


def _by_key(rows: Sequence[_ComparedRow]) -> dict[Hashable, list[_ComparedRow]]:
    groups: dict[Hashable, list[_ComparedRow]] = {}
    for row in rows:
        groups.setdefault(row.key, []).append(row)
    return groups


def _join(left: Sequence[_ComparedRow], right: Sequence[_ComparedRow]) -> Iterator[_Pair]:
    """Yield groups of rows that share a part, directly or through another row; the others one by one."""
    rows = [*((0, row) for row in left), *((1, row) for row in right)]
    sharing: dict[Hashable, list[tuple[int, _ComparedRow]]] = {}
    for entry in rows:
        for part in entry[1].parts:
            sharing.setdefault(part, []).append(entry)
    grouped: set[tuple[int, _ComparedRow]] = set()
    for start in rows:
        group, waiting = [], [start]
        while waiting:
            entry = waiting.pop()
            if entry not in grouped:
                grouped.add(entry)
                group.append(entry)
                waiting += (other for part in entry[1].parts for other in sharing.pop(part, ()))
        old, new = (sorted((row for side, row in group if side == wanted), key=lambda row: row.at) for wanted in (0, 1))
        if old and new:
            yield old, new
        else:
            yield from (([row], []) for row in old)
            yield from (([], [row]) for row in new)


def _difference(before: Sequence[_ComparedRow], after: Sequence[_ComparedRow]) -> RowDifference:
    old, new = (sum(row.count for row in side) for side in (before, after))
    if not before:
        change = RowChange.NEW
    elif not after:
        change = RowChange.VANISHED
    elif len(before) != len(after):
        change = RowChange.SPLIT if len(before) < len(after) else RowChange.FUSED
    else:
        change = RowChange.UNCHANGED if old == new else RowChange.FASTER if new < old else RowChange.SLOWER
    first = (after or before)[0]
    ids = [tuple(row.id for row in side) for side in (before, after)]
    return RowDifference(change, ids[0], ids[1], first.name, first.module, first.source, old, new)
