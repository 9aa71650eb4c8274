"""Which TOSA operators the operations inside of branches and loops compute.

Of these Vela's debug database (ethos-u-vela 5.1.0, regor) lists less than of the main program: that an operation is in
the queue, but not what it was scheduled from. What there is: the tensors that operations of a branch write to memory,
each with its place, and the command stream, which has the place that each operation writes to. So an operation is known
by the tensor that it writes, and computes the TOSA operators between that and the tensors that were written before.

Facts this rests on, each seen in compiled programs: branches are in the stream in the order of TOSA's regions, with
BRANCH commands around them; a branch's places count from the tensor "carveout-for-op-N" of the program around it; what
lies elsewhere is one of its outputs; operations that hand their result to the next one ("chained") write to no memory.
Where a program does not fit them, nothing is said about its branches.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ethos_hil.lowering.formats.command_stream import BRANCH, commands
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaOperator

_CARVEOUT = "carveout-for-op-"
# Registers: where the output lies (48 bits: parameter and payload), and in bits 14-15 of its precision how it is kept.
_OFM_BASE, _OFM_PRECISION, _CHAINED = 0x010, 0x114, 2
_BRANCH_BYTES = 8


@dataclass(frozen=True)
class Computed:
    """What the operation of a queue entry computes.

    Attributes:
        region: name of the TOSA region.
        tensor: the tensor it writes; "" if it only hands on.
        operators: indices, in the region, of the operators it or those that it hands on to compute, in order.
    """

    region: str
    tensor: str
    operators: tuple[int, ...]


def computed(
    graphs: Mapping[str, TosaGraph], tables: Mapping[str, Sequence[Mapping[str, str]]], stream: bytes
) -> dict[str, Computed]:
    """By `scheduled_id`, of the queue entries that are inside of branches and loops.

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
    ofms = _ofms(stream)
    regions = {name: _Region(name, graph, places) for name, graph in graphs.items()}
    seen: set[str] = set()
    found: dict[str, Computed] = {}
    for entry in sorted(tables["queue"], key=lambda row: int(row["offset"])):
        offset, scheduled = int(entry["offset"]), entry["scheduled_id"]
        part = bisect.bisect_right(parts, offset) - 1
        name = order[part]
        if name != main and scheduled not in seen:  # the further stripes of an operation belong to its first
            seen.add(scheduled)
            regions[name].resume(order[:part].count(name))
            found |= regions[name].take(scheduled, ofms.get(offset))
    for region in regions.values():
        found |= region.end()
    return found


def _order(graphs: Mapping[str, TosaGraph], name: str) -> Iterator[str]:
    """Yield the regions in the order of the stream; one that goes on after a branch is named again."""
    yield name
    for operator in graphs[name].operators:
        for body in operator.bodies:
            yield from _order(graphs, body)
        if operator.bodies:
            yield name


def _parts(stream: bytes) -> list[int]:
    """Where the parts of the stream begin that are run as a whole: behind a BRANCH, or where one goes to."""
    branches = [command for command in commands(stream) if command.code == BRANCH and command.payload is not None]
    starts = {0, *(each.offset + _BRANCH_BYTES for each in branches), *(each.payload or 0 for each in branches)}
    only_branch = {each.offset for each in branches}  # the second of two in a row is no part of anything
    return sorted(starts - only_branch)


def _ofms(stream: bytes) -> dict[int, int | None]:
    """Return the place that each operation writes to, by the operation's offset; None for one that hands its result on."""
    base, precision = 0, 0
    found: dict[int, int | None] = {}
    for command in commands(stream):
        if command.payload is not None and command.code == _OFM_BASE:
            base = command.parameter << 32 | command.payload
        elif command.payload is None and command.code == _OFM_PRECISION:
            precision = command.parameter
        elif command.payload is None and command.code < BRANCH:
            found[command.offset] = None if precision >> 14 == _CHAINED else base
    return found


class _Places:
    """Where the tensors of each region lie."""

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
            # A table's rows are in order of time, region by region: what a branch gives follows its memory.
            carveouts[region] += waiting
            waiting = []
        for region in _order(graphs, next(iter(graphs))):
            around = [operator for operator in graphs[region].operators if operator.bodies]
            for operator, (_, address) in zip(around, sorted(carveouts[region]), strict=False):
                for body in operator.bodies:
                    self.base[body] = self.base[region] + address


def _owner(name: str, owners: Mapping[str, str]) -> str | None:
    """Return the region of a tensor; Vela calls what it makes itself after one of the program's, with an ending."""
    while name:
        if name in owners:
            return owners[name]
        name = name.rpartition("_")[0]
    return None


class _Region:
    """A region while its operations are gone through in order."""

    def __init__(self, name: str, graph: TosaGraph, places: _Places) -> None:
        self._name, self._graph, self._base = name, graph, places.base[name]
        self._producers = graph.producers()
        given = {tensor.name for tensor in graph.inputs}
        self._outputs = [tensor.name for tensor in graph.outputs]
        self._left = [row for row in places.rows[name] if row[2] not in given]
        self._written = set(given)
        self._in_memory = given | {row[2] for row in self._left} | set(self._outputs)
        self._waiting: list[str] = []
        self._last: Computed | None = None

    def resume(self, branches: int) -> None:
        """So many of its own branches and loops are behind it, and have written what they give."""
        inner = [operator for operator in self._graph.operators if operator.bodies]
        self._written.update(name for operator in inner[:branches] for name in operator.outputs)

    def take(self, scheduled: str, address: int | None) -> dict[str, Computed]:
        """Return the next operation writes to `address`; what is known by that of it and of those before it."""
        self._waiting.append(scheduled)
        tensor = None if address is None else self._at(address - self._base) or self._output()
        if tensor is None:
            return {}
        self._written.add(tensor)
        self._left = [row for row in self._left if row[2] != tensor]
        if tensor not in self._producers:  # made by Vela, on the way to what follows
            return {}
        return self._assign(Computed(self._name, tensor, self._between(tensor)))

    def end(self) -> dict[str, Computed]:
        """Nothing follows."""
        return self._assign(self._last) if self._last is not None else {}

    def _assign(self, computed: Computed) -> dict[str, Computed]:
        *before, last = self._waiting or [""]
        handed = Computed(computed.region, "", computed.operators)
        assigned = dict.fromkeys(before, handed) | ({last: computed} if last else {})
        self._waiting, self._last = [], handed
        return assigned

    def _at(self, place: int) -> str | None:
        """Return the tensor of this place that can be written next; the earliest, where memory is used again."""
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
        """Return the operators from tensors in memory to this one."""
        found: dict[int, TosaOperator] = {}

        def visit(name: str) -> None:
            operator = self._producers.get(name)
            if operator is None or operator.is_constant or operator.index in found:
                return
            found[operator.index] = operator
            for each in operator.inputs:
                if each not in self._in_memory:
                    visit(each)

        visit(tensor)
        return tuple(sorted(found))
