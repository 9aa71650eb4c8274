"""Which TOSA operators the operations inside branches and loops compute.

For these, Vela's debug database (ethos-u-vela 5.1.0, regor) has less than for the main program: it lists that an
operation is in the queue, but not what it was scheduled from. It does have the place of each tensor that operations of
a branch write to memory, and the command stream has the place that each operation writes to. So the tensor that it
writes identifies an operation: it computes the TOSA operators between that tensor and the tensors written before.

Facts this rests on, each seen in compiled programs: branches are in the stream in the order of TOSA's regions, with
BRANCH commands around them; a branch's places count from the tensor "carveout-for-op-N" of the program around it; a
place elsewhere is one of the branch's outputs; operations that pass their result to the next one ("chained") write to
no memory. A program that contradicts them gets no rows for its branches.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.formats.command_stream import BRANCH, WIDE, commands, operations
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator

_CARVEOUT = "carveout-for-op-"
# Registers: the output's address, and its precision, whose bits 14-15 are its storage.
_OFM_BASE, _OFM_PRECISION, _CHAINED = WIDE | 0x010, 0x114, 2
_BRANCH_BYTES = 8


@dataclass(frozen=True)
class BranchOperation:
    """What the operation of a queue entry computes.

    Attributes:
        region: name of the TOSA region.
        tensor: the tensor it writes; "" if it only passes its result on.
        operators: indices, in the region, of the operators that it, or the operation it passes its result to, computes.
    """

    region: str
    tensor: str
    operators: tuple[int, ...]


def map_branch_operations(
    graphs: Mapping[str, TosaGraph], tables: Mapping[str, Sequence[Mapping[str, str]]], stream: bytes
) -> dict[str, BranchOperation]:
    """Return the operations inside branches and loops, by the `scheduled_id` of their queue entry.

    Args:
        graphs: the regions of the TOSA program by name, the main one first.
        tables: Vela's debug database.
        stream: the register command stream.
    """
    main = next(iter(graphs))
    order = list(_order(graphs, main))
    parts = _parts(stream)
    if len(order) == 1 or len(order) != len(parts):
        return {}
    places = _Places(graphs, tables.get("tensors", ()))
    ofms = {  # the address that each operation writes to, by its offset; None where it passes its result on
        operation.offset: None if registers[_OFM_PRECISION] >> 14 == _CHAINED else registers[_OFM_BASE]
        for operation, registers in operations(stream, (_OFM_BASE, _OFM_PRECISION))
    }
    regions = {name: _Region(name, graph, places) for name, graph in graphs.items()}
    seen: set[str] = set()
    found: dict[str, BranchOperation] = {}
    for entry in sorted(tables["queue"], key=lambda row: int(row["offset"])):
        offset, scheduled = int(entry["offset"]), entry["scheduled_id"]
        part = bisect.bisect_right(parts, offset) - 1
        name = order[part]
        if name != main and scheduled not in seen:  # further stripes of an operation belong to its first one
            seen.add(scheduled)
            regions[name].resume(order[:part].count(name))
            found |= regions[name].take(scheduled, ofms.get(offset))
    for region in regions.values():
        found |= region.end()
    return found


def _order(graphs: Mapping[str, TosaGraph], name: str) -> Iterator[str]:
    """Yield the regions in the order of the stream. A region that goes on after a branch is named again."""
    yield name
    for operator in graphs[name].operators:
        for body in operator.bodies:
            yield from _order(graphs, body)
        if operator.bodies:
            yield name


def _parts(stream: bytes) -> list[int]:
    """Return the offsets at which what runs as a whole starts: after a BRANCH, and at a branch's target."""
    branches = [command for command in commands(stream) if command.code == BRANCH and command.payload is not None]
    starts = {0, *(branch.offset + _BRANCH_BYTES for branch in branches), *(branch.payload or 0 for branch in branches)}
    only_branch = {branch.offset for branch in branches}  # the second of two adjacent BRANCHes starts no part
    return sorted(starts - only_branch)


class _Places:
    """The places in memory of each region's tensors."""

    def __init__(self, graphs: Mapping[str, TosaGraph], rows: Sequence[Mapping[str, str]]) -> None:
        owners = {name: region for region, graph in graphs.items() for name in graph.tensors}
        self.rows: dict[str, list[tuple[int, int, str]]] = {region: [] for region in graphs}
        """(start time, address, name) of the tensors in memory."""
        self.base = dict.fromkeys(graphs, 0)
        carveouts: dict[str, list[tuple[int, int]]] = {region: [] for region in graphs}
        waiting: list[tuple[int, int]] = []
        for row in rows:
            time, address, name = int(row["start_time"]), int(row["start_address"], 16), row["name"]
            if name.startswith(_CARVEOUT):
                waiting.append((time, address))
                continue
            region = _owner(name, owners)
            if region is None:
                continue
            self.rows[region].append((time, address, name))
            # The rows are in order of time, region by region: a branch's outputs follow its memory.
            carveouts[region] += waiting
            waiting = []
        for region in _order(graphs, next(iter(graphs))):
            around = [operator for operator in graphs[region].operators if operator.bodies]
            for operator, (_, address) in zip(around, sorted(carveouts[region]), strict=False):
                for body in operator.bodies:
                    self.base[body] = self.base[region] + address


def _owner(name: str, owners: Mapping[str, str]) -> str | None:
    """Return the region of a tensor. Vela names its own tensors after one of the program's, with a suffix."""
    while name:
        if name in owners:
            return owners[name]
        name = name.rpartition("_")[0]
    return None


class _Region:
    """A region whose operations are identified in order."""

    def __init__(self, name: str, graph: TosaGraph, places: _Places) -> None:
        self._name, self._graph, self._base = name, graph, places.base[name]
        self._producers = graph.producers()
        given = {tensor.name for tensor in graph.inputs}
        self._outputs = [tensor.name for tensor in graph.outputs]
        self._left = [row for row in places.rows[name] if row[2] not in given]
        self._written = set(given)
        self._in_memory = given | {row[2] for row in self._left} | set(self._outputs)
        self._waiting: list[str] = []
        self._last: BranchOperation | None = None

    def resume(self, branches: int) -> None:
        """Note that its first `branches` branches and loops have run, and have written their outputs."""
        inner = [operator for operator in self._graph.operators if operator.bodies]
        self._written.update(name for operator in inner[:branches] for name in operator.outputs)

    def take(self, scheduled: str, address: int | None) -> dict[str, BranchOperation]:
        """Identify the next operation, which writes to `address`. Return what is now known of it and of those before
        it.
        """
        self._waiting.append(scheduled)
        tensor = None if address is None else self._at(address - self._base) or self._output()
        if tensor is None:
            return {}
        self._written.add(tensor)
        self._left = [row for row in self._left if row[2] != tensor]
        if tensor not in self._producers:  # Vela made it, on the way to the next tensor
            return {}
        return self._assign(BranchOperation(self._name, tensor, self._between(tensor)))

    def end(self) -> dict[str, BranchOperation]:
        """Identify the operations left at the end of the region."""
        return self._assign(self._last) if self._last is not None else {}

    def _assign(self, computed: BranchOperation) -> dict[str, BranchOperation]:
        *before, last = self._waiting or [""]
        handed = BranchOperation(computed.region, "", computed.operators)
        assigned = dict.fromkeys(before, handed) | ({last: computed} if last else {})
        self._waiting, self._last = [], handed
        return assigned

    def _at(self, place: int) -> str | None:
        """Return the tensor at this place that can be written next; the earliest, where memory is reused."""
        ready = (row for row in self._left if row[1] == place and self._ready(row[2]))
        return min(ready, default=(0, 0, None), key=lambda row: row[0])[2]

    def _output(self) -> str | None:
        return next((name for name in self._outputs if name not in self._written and self._ready(name)), None)

    def _ready(self, tensor: str) -> bool:
        """Return whether all tensors in memory that it is computed from have been written."""
        if tensor not in self._producers:
            return True
        inputs = {name for index in self._between(tensor) for name in self._graph.operators[index].inputs}
        return (inputs & self._in_memory) - {tensor} <= self._written

    def _between(self, tensor: str) -> tuple[int, ...]:
        """Return the operators between tensors in memory and this one."""
        operators: dict[int, TosaOperator] = {}

        def visit(name: str) -> None:
            operator = self._producers.get(name)
            if operator is None or operator.is_constant or operator.index in operators:
                return
            operators[operator.index] = operator
            for value in operator.inputs:
                if value not in self._in_memory:
                    visit(value)

        visit(tensor)
        return tuple(sorted(operators))
