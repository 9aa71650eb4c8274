"""Two records of one question, operation by operation.

Rows are aligned by delegate, TOSA operator, module and operators, never by their numbers, which shift when one comes or
goes. What is left over is joined where it computes the same operators at the same place: so an operation that was split
or fused stands against its parts. Rows of both sides add up to the totals, so their differences do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ethos_hil.results.inference_profile import CpuRow
from ethos_hil.results.record import JOB, Op, Record
from ethos_hil.results.verdict import Verdict


class RowChange(StrEnum):
    """What became of some rows."""

    UNCHANGED = "unchanged"
    FASTER = "faster"
    SLOWER = "slower"
    SPLIT = "split"
    FUSED = "fused"
    NEW = "new"
    VANISHED = "vanished"


class Incomparable(Exception):
    """Two records do not answer one question.

    Attributes:
        code: a stable word for what differs.
        message: what differs, with both sides.
        hint: what to do.
    """

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


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
        Incomparable: they do not answer one question, or one was not verified, or has no cycles.
    """
    provenance = _require_comparable(before, after)
    npu = _differences(_counted(before.ops), _counted(after.ops), _operation_key, _parts_of_operation, _operation)
    unit, (old_cpu, new_cpu) = _cpu(before, after)
    return ProfileComparison(
        provenance,
        npu,
        _differences(old_cpu, new_cpu, _cpu_key, lambda row: (), _cpu_row),
        unit,
        tuple(_notes(before, after)),
    )


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
    )
    for code, name, of in sides:
        old, new = of(before), of(after)
        if old != new:
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


def _counted(ops: Iterable[Op]) -> list[Op]:
    """Return rows without jobs that cost nothing, which only some ways of finding cycles have."""
    return [op for op in ops if op.id != JOB or op.cycles]


def _delegates(ops: Iterable[Op]) -> dict[int | None, int]:
    """Return the number of each delegate's call among them: instructions shift when one is added on the CPU."""
    return {at: number for number, at in enumerate(dict.fromkeys(op.instruction for op in ops))}


@dataclass(frozen=True)
class _Aligned:
    """A row of one record.

    Attributes:
        delegate: number of the delegate's call in the record, of an NPU's operation.
        item: the row.
    """

    delegate: int
    item: Op | CpuRow


def _operation_key(row: _Aligned) -> Hashable:
    assert isinstance(row.item, Op)
    return row.item.id == JOB, row.delegate, row.item.tosa_op, row.item.module, row.item.aten_ops


def _parts_of_operation(row: _Aligned) -> Sequence[Hashable]:
    """Return what a row computes: each operator at its module, and at each line."""
    assert isinstance(row.item, Op)
    places = [("module", row.item.module), *(("line", line) for line in row.item.sources or (row.item.source,) if line)]
    return [(operator, place) for operator in row.item.aten_ops for place in places]


def _cpu_key(row: _Aligned) -> Hashable:
    assert isinstance(row.item, CpuRow)
    return row.item.operator, row.item.part, row.item.module


def _operation(row: _Aligned) -> tuple[str, str, str, str, int]:
    assert isinstance(row.item, Op)
    return row.item.id, row.item.npu_op or row.item.id, row.item.module, row.item.source, row.item.cycles or 0


def _cpu_row(row: _Aligned) -> tuple[str, str, str, str, int]:
    assert isinstance(row.item, CpuRow)
    part = "" if row.item.part == "kernel" else f": {row.item.part}"
    return row.item.id, f"{row.item.operator}{part}", row.item.module, row.item.source, row.item.count or 0


def _cpu(before: Record, after: Record) -> tuple[str, tuple[Sequence[CpuRow], Sequence[CpuRow]]]:
    """Return the unit and the rows that both records count; waiting for the NPU is its own rows."""
    sides = [
        [row for row in (record.profile.cpu if record.profile else ()) if row.count is not None and row.part != "wait"]
        for record in (before, after)
    ]
    units = {row.unit for side in sides for row in side}
    if not all(sides) or len(units) != 1:
        return "", ((), ())
    return units.pop(), (sides[0], sides[1])


def _differences(
    before: Sequence[Op] | Sequence[CpuRow],
    after: Sequence[Op] | Sequence[CpuRow],
    key: Callable[[_Aligned], Hashable],
    parts: Callable[[_Aligned], Sequence[Hashable]],
    told: Callable[[_Aligned], tuple[str, str, str, str, int]],
) -> tuple[RowDifference, ...]:
    old, new = _rows(before), _rows(after)
    pairs = list(_aligned(old, new, key, parts))
    first = {id(row): number for number, row in enumerate(new)}
    pairs.sort(key=lambda pair: min((first[id(row)] for row in pair[1]), default=len(new)))
    found = tuple(_difference(left, right, told) for left, right in pairs)
    if sum(row.old for row in found) != sum(told(row)[4] for row in old) or sum(row.new for row in found) != sum(
        told(row)[4] for row in new
    ):
        raise AssertionError("rows of a comparison do not add up to the totals")
    return found


def _rows(items: Sequence[Op] | Sequence[CpuRow]) -> list[_Aligned]:
    numbers = _delegates(item for item in items if isinstance(item, Op))
    return [_Aligned(numbers[item.instruction] if isinstance(item, Op) else 0, item) for item in items]


def _aligned(
    old: Sequence[_Aligned],
    new: Sequence[_Aligned],
    key: Callable[[_Aligned], Hashable],
    parts: Callable[[_Aligned], Sequence[Hashable]],
) -> Iterator[tuple[list[_Aligned], list[_Aligned]]]:
    """Yield rows that stand against each other; every row is in one pair."""
    sides = _by_key(old, key), _by_key(new, key)
    left: list[_Aligned] = []
    right: list[_Aligned] = []
    for name in dict.fromkeys((*sides[0], *sides[1])):
        mine, other = sides[0].get(name, []), sides[1].get(name, [])
        if len(mine) == len(other):
            yield from (([one], [two]) for one, two in zip(mine, other, strict=True))
        elif mine and other:
            yield mine, other
        else:
            left += mine
            right += other
    yield from _joined(left, right, parts)


def _by_key(rows: Sequence[_Aligned], key: Callable[[_Aligned], Hashable]) -> dict[Hashable, list[_Aligned]]:
    found: dict[Hashable, list[_Aligned]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _joined(
    left: Sequence[_Aligned], right: Sequence[_Aligned], parts: Callable[[_Aligned], Sequence[Hashable]]
) -> Iterator[tuple[list[_Aligned], list[_Aligned]]]:
    """Yield groups of rows that share a part, directly or through another row."""
    group_of: dict[Hashable, int] = {}
    groups: dict[int, tuple[list[_Aligned], list[_Aligned]]] = {}
    order = {id(row): number for number, row in enumerate((*left, *right))}
    for number, (side, row) in enumerate((*((0, row) for row in left), *((1, row) for row in right))):
        groups[number] = ([row], []) if side == 0 else ([], [row])
        for part in parts(row):
            known = group_of.get(part)
            if known is not None and known != number:
                joined = groups.pop(known)
                groups[number][0].extend(joined[0])
                groups[number][1].extend(joined[1])
                group_of = {each: number if at == known else at for each, at in group_of.items()}
            group_of[part] = number
    for old, new in groups.values():
        if old and new:
            yield sorted(old, key=lambda row: order[id(row)]), sorted(new, key=lambda row: order[id(row)])
        else:
            yield from (([row], []) for row in old)
            yield from (([], [row]) for row in new)


def _difference(
    left: Sequence[_Aligned], right: Sequence[_Aligned], told: Callable[[_Aligned], tuple[str, str, str, str, int]]
) -> RowDifference:
    before, after = [told(row) for row in left], [told(row) for row in right]
    old, new = sum(row[4] for row in before), sum(row[4] for row in after)
    if not before:
        change = RowChange.NEW
    elif not after:
        change = RowChange.VANISHED
    elif len(before) != len(after):
        change = RowChange.SPLIT if len(before) < len(after) else RowChange.FUSED
    else:
        change = RowChange.UNCHANGED if old == new else RowChange.FASTER if new < old else RowChange.SLOWER
    _, name, module, source, _ = (after or before)[0]
    return RowDifference(
        change, tuple(row[0] for row in before), tuple(row[0] for row in after), name, module, source, old, new
    )
