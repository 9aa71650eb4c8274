"""A model of how long the NPU takes, from the command stream alone. Provenance of its figures: "modelled".

    throughput.py      what the MAC engine and the output stage need for a block
    traffic.py         the bytes that an operation moves, and the memories
    kernel_cost.py     one operation alone
    this file          all of them, one after another and side by side
    rules.py           how well each rule is validated

What differs between NPUs is in ethos_hil/base/npu.

It follows published runs of Arm's FVPs, which suites/lab/prove/published compares it with; docs/npu.md has the errors.
It leaves out refresh and arbitration of real memories, and the order of zeros in weights.

When the operations of a program run.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import MemorySystem, Port
from ethos_hil.harness.npu.decode.fields import Waits
from ethos_hil.harness.npu.isa.feature_map import Layout
from ethos_hil.harness.npu.isa.operations import Dma, Op, Pool
from ethos_hil.harness.npu.timing.kernel_cost import START_COPY, Cost, cost
from ethos_hil.harness.npu.timing.traffic import DEFAULT_PORTS

PIECE, AHEAD = 128, 4  # bytes; fitted to rnnoise at several latencies
START = 100  # cycles; fitted to runs without latency
WORDS = 20  # of an operation that a branch has led back to
OVERSHOOT = 0.22


@dataclass(frozen=True, slots=True)
class OpSpan:
    """When an operation runs, in cycles since the start of the stream."""

    begin: float
    end: float


@dataclass
class _Stages:
    """The last kernel: when each of its stages is ready for the next one.

    Attributes:
        read, multiplied, output, written: ends of the stages.
        block: cycles between two blocks.
        blocks: how many there are.
        chained: whether its output stays inside the NPU.
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


# PMU event numbers (ethosu/vela/ethos_u55_regs, pmu_event_type; the driver's header has the same ones for Ethos-U85,
# and calls the ports SRAM and EXT)
CYCLE = 17
NPU_IDLE = 32
NPU_ACTIVE = 35
MAC_ACTIVE = 48
OUTPUT_ACTIVE = 64
DECODER_ACTIVE = 80
AXI_READ_BEATS = (130, 386)
AXI_WRITE_BEATS = (135, 391)


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation of a program and its modelled timing.

    Attributes:
        offset: byte offset of its command word in the command stream.
        name: "CONV", "DEPTHWISE", "POOL MAX", "ELEMENTWISE ADD", "DMA", ...
        cycles: its share of the total, modelled.
        mac_cycles: cycles in which the MAC engine multiplies for it.
        ofm_shape: (height, width, depth); (1, 1, bytes) for DMA.
        begin, end: when it runs, in cycles since the start of the stream.
    """

    offset: int
    name: str
    cycles: int
    mac_cycles: int
    ofm_shape: tuple[int, int, int]
    begin: int = 0
    end: int = 0


@dataclass(frozen=True)
class Timing:
    """Records of all operations of a program, in order, and PMU event counts."""

    ops: tuple[OpRecord, ...]
    cycles: int
    events: Mapping[int, int]


def model(
    ops: Sequence[Op],
    configuration: EthosU,
    ports: Mapping[int, int] = DEFAULT_PORTS,
    waits: Mapping[int, Waits] | None = None,
    system: MemorySystem | None = None,
    stream_bytes: int = 0,
) -> Timing:
    """Model the timing of operations.

    Args:
        ops: in the order in which they run.
        configuration: of the NPU.
        ports: region -> AXI port 0 or 1; 0 where it has no entry.
        waits: the waits before each operation, by its offset; None: every operation waits for all before it.
        system: the memories; by default the family's.
        stream_bytes: size of the command stream, which counts as read beats of the constants' port.
    """
    system = system or configuration.family.system
    costs: list[Cost] = []
    for number, op in enumerate(ops):
        last = ops[number - 1] if number else None
        # A pool repeated at other addresses (`PoolRepeater`) shares its predecessor's kernel, and costs the same.
        again = isinstance(op, Pool) and isinstance(last, Pool) and op.kernel is last.kernel
        costs.append(costs[-1] if again else cost(op, configuration, system, ports))
    spans = schedule(ops, costs, waits, configuration, system, ports)
    times = [(math.ceil(span.begin), math.ceil(span.end)) for span in spans]
    shares = shares_of(ops, times)
    records = tuple(
        OpRecord(op.offset, op.name, share, math.ceil(cost.engine.active), _shape(op), begin, end)
        for op, cost, share, (begin, end) in zip(ops, costs, shares, times, strict=True)
    )
    total = max((end for _, end in times), default=0)
    events = {
        CYCLE: total,
        NPU_IDLE: 0,
        NPU_ACTIVE: total,
        MAC_ACTIVE: min(math.ceil(sum(cost.engine.active for cost in costs)), total),
        OUTPUT_ACTIVE: min(math.ceil(sum(cost.output for cost in costs)), total),
        DECODER_ACTIVE: min(math.ceil(sum(cost.engine.decoding for cost in costs)), total),
    }
    for port in (0, 1):
        events[AXI_READ_BEATS[port]] = sum(math.ceil(cost.read[port] / system.beat) for cost in costs)
        events[AXI_WRITE_BEATS[port]] = sum(math.ceil(cost.moved[port] / system.beat) for cost in costs)
    events[AXI_READ_BEATS[ports.get(0, 0)]] += -(-stream_bytes // system.beat)
    return Timing(records, total, events)


def _shape(op: Op) -> tuple[int, int, int]:
    return (1, 1, op.length * op.sizes[0] * op.sizes[1]) if isinstance(op, Dma) else op.ofm.shape


def shares_of(ops: Sequence[Op], times: Sequence[tuple[int, int]]) -> list[int]:
    """Return the cycles of each operation, which has run from `times[i][0]` to `times[i][1]`.

    A cycle belongs to the kernel that runs in it (the earlier one where two overlap), else to a transfer that does and
    was issued before the next kernel, else to that kernel. Shares sum to the total, and those of the first operations
    to the time when the last of these ends.
    """
    shares = [0] * len(ops)
    gaps: list[tuple[int, int, int]] = []  # begin, end, the kernel after the gap, or the last operation
    at = 0
    for index, (op, (begin, end)) in enumerate(zip(ops, times, strict=True)):
        if isinstance(op, Dma):
            continue
        if begin > at:
            gaps.append((at, begin, index))
        shares[index] += max(0, end - max(begin, at))
        at = max(at, end)
    last = max((end for _, end in times), default=0)
    if last > at:
        gaps.append((at, last, len(ops) - 1))
    copies = [(begin, end, index) for index, (op, (begin, end)) in enumerate(zip(ops, times, strict=True))
              if isinstance(op, Dma)]  # fmt: skip
    first = 0
    for begin, end, owner in gaps:
        while first < len(copies) and copies[first][1] <= begin:
            first += 1
        for index, cycles in _split_gap(copies, first, begin, end, owner):
            shares[index] += cycles
    return shares


def _split_gap(
    copies: Sequence[tuple[int, int, int]], first: int, begin: int, end: int, owner: int
) -> Iterator[tuple[int, int]]:
    """Yield the owners of a gap between kernels, with their cycles: the transfers in it, and the operation that
    follows.
    """
    for start, stop, index in copies[first:]:
        if start >= end or index > owner:  # one that is issued later has not made this kernel wait
            break
        if start > begin:
            yield index, start - begin
            begin = start
        yield index, min(stop, end) - begin
        begin = min(stop, end)
    if begin < end:
        yield owner, end - begin
