"""Which operators of the user's model each NPU operation computes.

Vela's debug database lists, for every entry of the command queue, the byte offset of its last operation in the register
command stream and the TOSA operator it was scheduled from. The TOSA operators carry the nodes they were made from, and
those descend from the aten operators of the exported float model. This module joins the three.

Facts of the database (ethos-u-vela 5.1.0, regor): `source.ext_key` is the index of the TOSA operator; `perf.name` is
the tensor the scheduled operation writes, so that the operators between the primary one and that tensor's producer are
fused into it; `group` names the operations carried by another. Each was checked against decoded streams. For branches
and loops the database has only the queue; `ethos_hil.lowering.map.branches` finds what their operations compute.
"""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence, Set

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.errors import CompileError
from ethos_hil.lowering.artifact import NpuOp
from ethos_hil.lowering.formats.command_stream import COMPUTE, DMA_START, commands, indexed_copies
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator
from ethos_hil.lowering.map import branches

# Operators that are folded into the one before them: its weights or its clamp have their effect.
_FOLDABLE = {"batch_norm", "relu", "relu_", "relu6", "hardtanh", "hardtanh_", "clamp", "clamp_"}
# Operators that only move values.
_MOVING = {"TRANSPOSE", "RESHAPE", "CONCAT", "SLICE", "PAD", "TILE", "REVERSE", "GATHER", "SCATTER", "IDENTITY"}
_NUMBER = re.compile(r"_\d+$")
_PASS_SUFFIX = re.compile(r"(_pre_computed|_fused_const|_common)+$")
_TABLE = re.compile(r"b_(?P<kind>.+?)(?P<number>(_\d+)?)_table_constant(?P<region>|_.+)")
"""The constant of a look-up: kind and number of the node it was made from, and the branch it is in."""


@dataclass(frozen=True)
class AtenCall:
    """One aten operator of the user's float model.

    Attributes:
        identifier: of the node in the first exported graph, as in `ethos_hil.lowering.formats.tosa.Ancestor`.
        aten: for example "aten.conv2d.default".
        module: path of the module that called it; "" is the model itself.
        source: the user's line, for example "net.py:12"; "" when unknown.
        producer: identifier of the call that computes its first argument, or None.
    """

    identifier: str
    aten: str
    module: str
    source: str
    producer: str | None = None

    @property
    def foldable(self) -> bool:
        return self.aten.split(".")[1:2] != [] and self.aten.split(".")[1] in _FOLDABLE


@dataclass(frozen=True)
class Partition:
    """What is known about one partition apart from its TOSA program.

    Attributes:
        calls: the model's calls by identifier, in the order they run.
        nodes: identifier of the call that each node of the partition's graph descends from, by the node's name; in a
            branch the key is the name, "_" and the branch's region, as tensors are called there.
        handles: ExecuTorch's debug handle of each call that has a node in the partition.
        surviving: identifiers that still have nodes after quantisation; the others were folded by then.
    """

    calls: Mapping[str, AtenCall]
    nodes: Mapping[str, str]
    handles: Mapping[str, int]
    surviving: frozenset[str] = field(default_factory=frozenset)


def build_map(
    graphs: Mapping[str, TosaGraph],
    database: str,
    stream: bytes,
    partition: Partition,
    *,
    first_id: int,
    total_cycles: int | None = None,
) -> tuple[NpuOp, ...]:
    """Return the rows of one delegate, in stream order. Every compute operation of `stream` belongs to one.

    Args:
        graphs: the regions of the partition's TOSA program by name, the main one first, with locations.
        database: text of Vela's out_debug.xml.
        stream: the register command stream.
        partition: the calls that the TOSA operators descend from.
        first_id: number of the first row's id.
        total_cycles: Vela's estimate for the whole delegate. Operations in branches and loops, for which the database
            has no cycles, share the remainder evenly.
    """
    graph = next(iter(graphs.values()))
    tables = read_tables(database)
    origins = origins_of(graph, partition)
    folded = _folds(graph, origins, partition)
    scheduled = {row["id"]: row for row in tables["perf"]}
    optimised = {row["id"]: row for row in tables["optimised"]}
    keys = {row["id"]: int(row["ext_key"]) for row in tables["source"] if row["ext_key"]}
    queue = sorted((*tables["queue"], *_indexed_entries(tables, stream)), key=lambda row: int(row["offset"]))
    carried: dict[str, list[str]] = {}
    for row in tables.get("group", ()):
        if row["id"] != row["group_id"]:
            carried.setdefault(row["group_id"], []).append(row["id"])

    def operator(optimised_id: str | None) -> TosaOperator | None:
        row = optimised.get(optimised_id or "")
        index = keys.get(row["source_id"]) if row else None
        return graph.operators[index] if index is not None and 0 <= index < len(graph.operators) else None

    primaries = [operator(row["optimised_id"]) for row in queue]
    taken = {primary.index for primary in primaries if primary is not None}
    cycles = _cycles(queue, scheduled, carried, total_cycles)
    npu_cycles = _cycles(queue, scheduled, carried, None, "npu_cycles")
    cascades = {row["id"]: int(row.get("cascade") or 0) for row in tables.get("perf_debug", ())}
    producers = graph.producers()
    branch_rows = _BranchRows(graphs, tables, stream, partition)
    rows: list[NpuOp] = []
    for number, (entry, primary) in enumerate(zip(queue, primaries, strict=True)):
        perf = scheduled.get(entry["scheduled_id"], {})
        name = perf.get("operator") or optimised.get(entry["optimised_id"], {}).get("operator", "")
        op = NpuOp(
            id=f"npu{first_id + number:05d}",
            npu_op=name,
            end_offset=int(entry["offset"]),
            tosa_op="",
            aten_ops=(),
            module="",
            source="",
            debug_handles=(),
            vela_cycles=cycles[number],
            tensor=perf.get("name", ""),
            vela_npu_cycles=npu_cycles[number],
            cascade=cascades.get(entry["scheduled_id"], 0),
        )
        if entry["scheduled_id"] in branch_rows.operations:
            rows.append(branch_rows.row(op, entry["scheduled_id"]))
            continue
        last = producers.get(op.tensor)
        if primary is None:  # Vela made it: the tensor it writes tells the operator
            primary = last
        fused = set() if primary is None else _fused_operators(primary, last, producers, taken)
        if primary is None:  # it converts an input, e.g. truth values to bytes of 0 and 255: its readers tell
            fused = _read_by(
                entry["scheduled_id"], tables, lambda row: operator(row["optimised_id"]) or producers.get(row["name"])
            )
            primary = graph.operators[min(fused)] if fused else None
        for member in carried.get(entry["scheduled_id"], ()):
            other = operator(scheduled.get(member, {}).get("optimised_id"))
            if other is not None:
                fused.add(other.index)
        if primary is not None:
            op = replace(op, tosa_op=primary.op, operator=primary.index)
        rows.append(_with_sources(op, primary, sorted(fused), origins, folded, partition))
    _check_coverage(rows, stream)
    return tuple(rows)


def _read_by(
    scheduled: str,
    tables: Mapping[str, Sequence[Mapping[str, str]]],
    operator: Callable[[Mapping[str, str]], TosaOperator | None],
) -> set[int]:
    """Return the indices of the operators whose rows read what an operation writes.

    Where Vela made all of these, too, as it does of an ARGMAX on an Ethos-U55, it is those that read what they write.
    """
    readers = seen = {scheduled}
    while readers:
        pairs = tables.get("perf_debug_conn", ())
        readers = {row["id"] for row in pairs if row["input_op_id"] in readers} - seen
        seen = seen | readers
        found = {match.index for row in tables["perf"] if row["id"] in readers and (match := operator(row)) is not None}
        if found:
            return found
    return set()


class _BranchRows:
    """Rows of the operations inside branches and loops."""

    def __init__(
        self,
        graphs: Mapping[str, TosaGraph],
        tables: Mapping[str, Sequence[Mapping[str, str]]],
        stream: bytes,
        partition: Partition,
    ) -> None:
        self.operations = branches.map_branch_operations(graphs, tables, stream)
        self._graphs, self._partition = graphs, partition
        self._origins = {name: origins_of(graph, partition) for name, graph in graphs.items() if self.operations}
        self._names = dict(zip(graphs, _names(tables["source"]), strict=False))

    def row(self, row: NpuOp, scheduled: str) -> NpuOp:
        """Return the row of a queue entry, named after its main TOSA operator."""
        operation = self.operations[scheduled]
        graph, origins = self._graphs[operation.region], self._origins[operation.region]
        operators = [graph.operators[index] for index in operation.operators]
        doing = [node for node in operators if node.op not in _MOVING and node.op != "RESCALE"]
        main = (doing or operators)[-1]
        name = self._names.get(operation.region, {}).get(main.index, main.op)
        row = replace(row, npu_op=name, tosa_op=main.op, tensor=operation.tensor)
        folded = _folds(graph, origins, self._partition)
        return _with_sources(row, main, operation.operators, origins, folded, self._partition)


def _names(sources: Sequence[Mapping[str, str]]) -> list[dict[int, str]]:
    """Return Vela's names of each region's operators, by index. The table has one region after the other."""
    regions: list[dict[int, str]] = []
    for row in sources:
        index = int(row["ext_key"] or -1)
        if not regions or index <= max(regions[-1]):
            regions.append({})
        regions[-1][index] = row["operator"]
    return regions


def _indexed_entries(tables: Mapping[str, Sequence[Mapping[str, str]]], stream: bytes) -> list[Mapping[str, str]]:
    """Return the entries that the queue lacks: gathers and scatters are DMA with an index, not compute operations."""
    queued = {row["scheduled_id"] for row in tables["queue"]}
    moving = [row for row in tables["perf"] if row["operator"] in ("Gather", "Scatter") and row["id"] not in queued]
    moving.sort(key=lambda row: int(row["id"]))  # in the order of the schedule
    offsets = indexed_copies(stream)
    share, rest = divmod(len(offsets), max(1, len(moving)))
    if not moving or rest:  # the assignment is unknown: the run reports operations without a row
        return []
    rows = [moving[number // share] for number in range(len(offsets))]
    keys = [{"optimised_id": row["optimised_id"], "scheduled_id": row["id"]} for row in rows]
    return [{"offset": str(offset), **key} for offset, key in zip(offsets, keys, strict=True)]


def read_tables(database: str) -> dict[str, list[dict[str, str]]]:
    """Return the tables of an out_debug.xml: rows by column name."""
    try:
        root = ElementTree.fromstring(database.encode())
    except ElementTree.ParseError as error:
        raise CompileError(f"Vela's debug database is not XML: {error}") from None
    tables: dict[str, list[dict[str, str]]] = {}
    for table in root.iter("table"):
        lines = [line for line in (table.text or "").splitlines() if line.strip()]
        tables[table.get("name", "")] = [
            {key: value or "" for key, value in row.items() if key is not None} for row in csv.DictReader(lines)
        ]
    missing = {"perf", "queue", "optimised", "source"} - tables.keys()
    if missing:
        raise CompileError(f"Vela's debug database lacks the tables {', '.join(sorted(missing))}")
    return tables


def origins_of(graph: TosaGraph, partition: Partition) -> list[AtenCall | None]:
    """Return the call that each TOSA operator computes a part of."""
    producers = graph.producers()
    origins: list[AtenCall | None] = [None] * len(graph.operators)
    unnumbered: dict[str, set[str]] = {}
    for name, call in partition.nodes.items():
        unnumbered.setdefault(_NUMBER.sub("", name), set()).add(call)
    for operator in graph.operators:
        if operator.is_constant:  # has no trace; unless it is a weight, it is named after the node it was made from
            node = _PASS_SUFFIX.sub("", operator.outputs[0])
            alike = unnumbered.get(_NUMBER.sub("", node), set())
            only = next(iter(alike)) if len(alike) == 1 else ""  # passes renumber nodes
            origins[operator.index] = partition.calls.get(partition.nodes.get(node, only))
            continue
        root = operator.location.root if operator.location is not None else None
        identifier = root.identifier if root is not None else ""
        if identifier not in partition.calls and operator.op == "TABLE":
            before = producers.get(operator.inputs[0])
            identifier = _table_of(operator, graph, partition, origins[before.index] if before is not None else None)
        origins[operator.index] = partition.calls.get(identifier)
    # An operator without a trace belongs to the call of its inputs, else to that of its readers.
    for operator in graph.operators:
        if origins[operator.index] is None and not operator.is_constant:
            known = (origins[producers[name].index] for name in operator.inputs if name in producers)
            origins[operator.index] = next(filter(None, known), None)
    for operator in reversed(graph.operators):
        for name in operator.inputs:
            source = producers.get(name)
            if source is not None and not source.is_constant and origins[source.index] is None:
                origins[source.index] = origins[operator.index]
    return origins


def _table_of(table: TosaOperator, graph: TosaGraph, partition: Partition, before: AtenCall | None) -> str:
    """Return the identifier of the call that a look-up belongs to; `before` is the call of its input.

    The pass that makes TABLEs drops the trace, but names the table after the node it replaces. If a node of the same
    kind was folded before, the nodes were renumbered, and the name may be another node's.
    """
    match = _TABLE.fullmatch(table.inputs[-1])
    if match is None:
        return ""
    kind = match["kind"]
    tables = [name for node in graph.operators if (name := _TABLE.fullmatch(node.inputs[-1] if node.inputs else ""))]
    nodes = [name for name in partition.nodes if re.fullmatch(rf"{kind}(_\d+)?{match['region']}", name)]
    alike = {partition.nodes[name] for name in nodes}
    if before is not None and before.identifier in alike and len(nodes) != sum(kind == name["kind"] for name in tables):
        return before.identifier
    return partition.nodes.get(f"{kind}{match['number']}{match['region']}", "")


def _folds(graph: TosaGraph, origins: Sequence[AtenCall | None], partition: Partition) -> dict[int, list[AtenCall]]:
    """Return the calls without an operator of their own, by the index of the operator they were folded into.

    That is the last operator that computes something for the call before them, because it clamps the values.
    """
    represented: dict[str, int] = {}
    for operator, origin in zip(graph.operators, origins, strict=True):
        if origin is not None and (operator.op not in _MOVING or origin.identifier not in represented):
            represented[origin.identifier] = operator.index
    here = set(partition.nodes.values())
    into: dict[str, str] = {}
    folded: dict[int, list[AtenCall]] = {}
    for call in partition.calls.values():  # in order, so a chain's head is known before its tail
        gone = call.identifier not in partition.surviving or call.identifier in here
        if call.identifier in represented or not call.foldable or not gone or call.producer is None:
            continue
        target = into.get(call.producer, call.producer)
        if target in represented:
            into[call.identifier] = target
            folded.setdefault(represented[target], []).append(call)
    return folded


def _fused_operators(
    primary: TosaOperator, last: TosaOperator | None, producers: Mapping[str, TosaOperator], taken: set[int]
) -> set[int]:
    """Return the operators between `primary` and `last`, inclusive, without other rows' primary operators."""
    if last is None or last.index == primary.index:
        return {primary.index}
    reaches: dict[int, bool] = {primary.index: True}

    def visit(operator: TosaOperator) -> bool:
        if operator.index not in reaches:
            reaches[operator.index] = False
            if not operator.is_constant and operator.index not in taken and operator.index > primary.index:
                ways = [visit(producers[name]) for name in operator.inputs if name in producers]
                reaches[operator.index] = any(ways)
        return reaches[operator.index]

    return {index for index, reached in reaches.items() if reached} if visit(last) else {primary.index}


def _with_sources(
    row: NpuOp,
    primary: TosaOperator | None,
    fused: Sequence[int],
    origins: Sequence[AtenCall | None],
    folded: Mapping[int, Sequence[AtenCall]],
    partition: Partition,
) -> NpuOp:
    calls: list[AtenCall] = []
    for index in fused:
        origin = origins[index]
        if origin is not None:
            calls += [origin, *folded.get(index, ())]
    main = origins[primary.index] if primary is not None else None
    handles = {partition.handles[call.identifier] for call in calls if call.identifier in partition.handles}
    return replace(
        row,
        aten_ops=tuple(dict.fromkeys(call.aten for call in calls)),
        module=main.module if main is not None else "",
        source=main.source if main is not None else "",
        debug_handles=tuple(sorted(handles)),
        sources=tuple(dict.fromkeys(call.source for call in calls if call.source)),
    )


def _cycles(
    queue: Sequence[Mapping[str, str]],
    scheduled: Mapping[str, Mapping[str, str]],
    carried: Mapping[str, Sequence[str]],
    total: int | None,
    column: str = "op_cycles",
) -> list[int]:
    """Return Vela's estimate per queue entry. Entries of one operation (stripes, depth slices) share it evenly."""
    entries: dict[str, list[int]] = {}
    for number, entry in enumerate(queue):
        entries.setdefault(entry["scheduled_id"], []).append(number)
    cycles = [0] * len(queue)
    for scheduled_id, numbers in entries.items():
        ids = [scheduled_id, *(member for member in carried.get(scheduled_id, ()) if member not in entries)]
        estimate = sum(int(scheduled[key].get(column) or 0) for key in ids if key in scheduled)
        _share(estimate, numbers, cycles)
    unknown = [number for number, entry in enumerate(queue) if entry["scheduled_id"] not in scheduled]
    if total is not None and unknown:
        _share(total - sum(cycles), unknown, cycles)
    return cycles


def _share(estimate: int, numbers: Sequence[int], cycles: list[int]) -> None:
    share, rest = divmod(estimate, len(numbers))
    for position, number in enumerate(numbers):
        cycles[number] = share + (1 if position < rest else 0)


def operation_offsets(stream: bytes, codes: Set[int]) -> tuple[int, ...]:
    """Return the byte offsets of the operations with these codes in a command stream."""
    return tuple(command.offset for command in commands(stream) if command.payload is None and command.code in codes)


def compute_offsets(stream: bytes) -> tuple[int, ...]:
    """Return the byte offsets of the words that start a computation (not those of DMA, waits and STOP)."""
    return operation_offsets(stream, COMPUTE)


def _check_coverage(rows: Sequence[NpuOp], stream: bytes) -> None:
    offsets = compute_offsets(stream)
    if offsets and (not rows or rows[-1].end_offset < offsets[-1]):
        end = rows[-1].end_offset if rows else None
        raise CompileError(f"Vela's debug database ends at byte {end}, the command stream's last operation is at "
                           f"{offsets[-1]}")  # fmt: skip
    operations = set(operation_offsets(stream, COMPUTE | {DMA_START}))
    for row in rows:
        if row.end_offset not in operations:
            raise CompileError(f"Vela's debug database names byte {row.end_offset}, where no NPU operation is")
