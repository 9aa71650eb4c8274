"""When the operations of a program run.

The parser takes the commands in order, one word a cycle, and fetches them in pieces of PIECE bytes, AHEAD of them
ahead, over the port of the constants. Waits, and the limit on outstanding operations, hold it up.

A kernel runs through its blocks in stages, each of them ready for the next kernel when it has done its last block:
inputs are fetched, the MAC engine works, the output stage works, outputs are written. Its first block starts START
cycles after its command. With a block dependency it may start that many blocks before its predecessor's end, otherwise
when that has ended; on an Ethos-U85 only a kernel that depends on nothing starts earlier (`Family.least_overlap`, the
largest block dependency).

Copies run one after another, next to kernels. All of them share the ports (`PortClock`). Reads and writes each pass at
the bus's speed at most, or as fast as the bursts that may be under way allow. Both together use the memory's budget:
`Port.rate` times `Port.window` bytes are there at once, and come again at that rate. A burst that has started passes
whole: on average the share OVERSHOOT of it goes beyond the budget of its window (fitted; it matters for flash alone,
whose window is 400 cycles).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import MemorySystem, Port
from ethos_hil.harness.npu.decode.waits import Waits
from ethos_hil.harness.npu.isa.feature_map import Layout
from ethos_hil.harness.npu.isa.operations import Dma, Op
from ethos_hil.harness.npu.timing.kernel_cost import START_COPY, Cost

PIECE, AHEAD = 128, 4  # bytes; fitted to rnnoise at several latencies
START = 100  # cycles; fitted to runs without latency
WORDS = 20  # of an operation that a branch has led back to
OVERSHOOT = 0.22


@dataclass(frozen=True)
class OpSpan:
    """When an operation runs, in cycles since the start of the stream."""

    begin: float
    end: float


@dataclass
class _Stages:
    """The last kernel: the ends of its four stages, and its blocks with the cycles between two.

    `chained` says whether its output stays inside the NPU.
    """

    read: float = -math.inf
    multiplied: float = -math.inf
    output: float = -math.inf
    written: float = -math.inf
    block: float = 0.0
    blocks: int = 0
    chained: bool = False


def schedule(
    ops: Sequence[Op],
    costs: Sequence[Cost],
    waits: Mapping[int, Waits] | None,
    configuration: EthosU,
    system: MemorySystem,
    ports: Mapping[int, int],
) -> list[OpSpan]:
    """Return when each operation runs.

    Args:
        ops: in the order they run.
        costs: theirs.
        waits: before operations, by their offsets; without them each operation waits for all before.
        configuration: of the NPU.
        system: the memories.
        ports: region -> AXI port.
    """
    run = _CommandParser(configuration, system, ports)
    return [
        run.copy(op, cost, held) if isinstance(op, Dma) else run.kernel(op, cost, held)
        for op, cost in zip(ops, costs, strict=True)
        for held in [Waits(0, 0) if waits is None else waits.get(op.offset, Waits())]
    ]


class _CommandParser:
    def __init__(self, configuration: EthosU, system: MemorySystem, ports: Mapping[int, int]) -> None:
        self.family = configuration.family
        self.clocks = [PortClock(port, system.beat) for port in system.ports]
        self.commands = ports.get(0, 0)
        self.latency = system.ports[self.commands].read_latency
        self.issued = 0.0
        self.offset = 0
        self.parsed = 0
        self.pieces: list[float] = []  # when the parser has started each
        self.kernels: list[float] = []  # ends
        self.copies: list[float] = []
        self.last = _Stages()

    def copy(self, op: Op, cost: Cost, held: Waits) -> OpSpan:
        self._issue(op, held)
        if len(self.copies) >= self.family.transfers:
            self.issued = max(self.issued, self.copies[-self.family.transfers])
        begin = max(self.issued + START_COPY, self.copies[-1] if self.copies else 0.0)
        passed = begin + max(cost.inputs.cycles, cost.written.cycles)
        end = max(passed, self._move(cost, begin)) + cost.inputs.latency + cost.written.latency
        self.copies.append(end)
        return OpSpan(begin, end)

    def kernel(self, op: Op, cost: Cost, held: Waits) -> OpSpan:
        last = self.last
        self._issue(op, held)
        if len(self.kernels) >= self.family.kernels and not last.chained:
            self.issued = max(self.issued, self.kernels[-self.family.kernels])
        started = self.issued + START
        begin = max(started, last.read, last.written - self._overlap(held))
        arrived = begin + cost.inputs.latency + cost.inputs.first
        decoded = max(started, last.multiplied) + cost.weights.latency if cost.weights.cycles else begin
        multiplying = max(arrived, decoded, last.multiplied)
        longest = max(cost.longest, self._move(cost, begin) - multiplying)
        multiplied = multiplying + max(cost.block * cost.blocks, longest - cost.stored)
        output = max(multiplying + cost.block, last.output)
        output = max(output + cost.stored * cost.blocks, multiplied + cost.stored)
        multiplied = max(multiplied, output - cost.stored)
        chained = not isinstance(op, Dma) and op.ofm.layout is Layout.CHAIN
        written = output if chained else output + cost.written.latency
        written = max(written, multiplying + longest)
        self.last = _Stages(
            multiplied - cost.block, multiplied, output, written, longest / cost.blocks, cost.blocks, chained
        )
        self.kernels.append(written)
        return OpSpan(begin, written)

    def _overlap(self, held: Waits) -> float:
        """Return how many cycles before the last kernel's end the next one may start."""
        blocks = held.blocks or 0
        if blocks < self.family.least_overlap:
            return 0.0
        return min(blocks, self.last.blocks) * self.last.block

    def _move(self, cost: Cost, begin: float) -> float:
        """Return when the ports have moved what an operation reads and writes."""
        return max(
            clock.use(begin, size, write)
            for write, sizes in ((False, cost.read), (True, cost.moved))
            for clock, size in zip(self.clocks, sizes, strict=True)
        )

    def _issue(self, op: Op, held: Waits) -> None:
        """Let the parser read the commands up to `op`, and wait as they say."""
        words = (op.offset - self.offset) // 4 if op.offset > self.offset else WORDS
        self.offset = op.offset
        self.parsed += 4 * words
        while len(self.pieces) * PIECE < self.parsed + 4:
            asked = self.pieces[-AHEAD] if len(self.pieces) >= AHEAD else 0.0
            passed = self.clocks[self.commands].use(asked, PIECE, write=False)
            self.issued = max(self.issued, passed + self.latency)
            self.pieces.append(self.issued)
        self.issued += words
        for ends, left in ((self.kernels, held.kernels), (self.copies, held.transfers)):
            if left is not None and len(ends) > left:
                self.issued = max(self.issued, ends[-1 - left])


class PortClock:
    """One port; it knows until when each direction, and the budget, are used."""

    def __init__(self, port: Port, beat: int) -> None:
        self.port = port
        self._speed = tuple(speed(port, beat, write) for write in (False, True))
        beyond = OVERSHOOT * port.burst / port.window if port.window else 0.0
        self._rate = port.rate + beyond
        self._free = [-math.inf, -math.inf]
        self._earned = -math.inf

    def use(self, time: float, size: float, write: bool) -> float:
        """Return when `size` bytes that are asked for at `time` have passed, without the memory's latency."""
        if not size:
            return time
        self._free[write] = max(self._free[write], time) + size / self._speed[write]
        if math.isinf(self._rate):
            return self._free[write]
        self._earned = max(self._earned, time - self.port.window) + size / self._rate
        return max(self._free[write], self._earned)


def speed(port: Port, beat: int, write: bool) -> float:
    """Return the bytes a cycle of whole bursts, in one direction: what the bus moves, or what can be under way."""
    latency, bursts = (port.write_latency, port.writes) if write else (port.read_latency, port.reads)
    bus = float(beat * port.ports)
    if not latency:
        return bus
    return min(bus, bursts * port.ports * port.burst / (latency + port.burst / beat))
