"""A model of how long the NPU takes, from the command stream alone. Provenance of its figures: "modelled".

A kernel is a pipeline over its blocks: inputs are fetched, multiplied, and put out. It takes

    fill + max(multiplying, output, transfers) + drain

where the three are sums over all blocks, edges included (harness/npu/timing/throughput.py,
harness/npu/timing/traffic.py). `fill` is the time until the first inputs are there, `drain` from the last block's end
until it is stored; where the output is the bottleneck, the first block is multiplied before, where multiplying is, the
last one is put out after. A DMA transfer takes a latency and its bytes at the rate of the slower memory.

Operations are issued in order. Waits, and the limit of what may be outstanding, hold up those behind. Transfers run one
after another, next to kernels. A kernel begins when its predecessor has ended, or with a block dependency, up to that
many blocks, but not more than the predecessor's drain and its own fill, earlier.

The cycles of an operation are its share of the total: a cycle belongs to the kernel that runs in it (the earlier one
where two overlap), else to the transfer that does, else to the operation that begins next. Shares sum to the total.

What it leaves out: contention between kernels and transfers, internal memory that is occupied, the command parser,
zero runs that make weights cheaper to decode. It is for comparing programs, not for predicting a board: docs/npu.md
says how far it is from Vela's estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ethos_hil.harness.npu.decode.waits import Gate
from ethos_hil.harness.npu.isa.configuration import Configuration
from ethos_hil.harness.npu.isa.feature_map import Layout
from ethos_hil.harness.npu.isa.operations import Block, Dma, Elementwise, Op, Pool
from ethos_hil.harness.npu.timing import blocks
from ethos_hil.harness.npu.timing.hazards import LIMITS
from ethos_hil.harness.npu.timing.memory_system import DEFAULT_PORTS, SYSTEMS, System
from ethos_hil.harness.npu.timing.throughput import MacEngine, multiplying, scale_cycles, storing
from ethos_hil.harness.npu.timing.traffic import Transfer, transfer

ISSUE = 8  # cycles between two operations: the registers that are written between them, one a cycle

# PMU event numbers (ethosu/vela/ethos_u55_regs, pmu_event_type; the driver's header has the same for Ethos-U85, whose
# ports it calls SRAM and EXT)
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
    """One operation of a program and what the model says about it.

    Attributes:
        offset: byte offset of its command word in the command stream.
        name: "CONV", "DEPTHWISE", "POOL MAX", "ELEMENTWISE ADD", "DMA", ...
        cycles: its share of the total, modelled.
        mac_cycles: cycles in which the engine multiplies for it.
        ifm_shape, ofm_shape: (height, width, depth); (1, 1, bytes) for DMA.
        begin, end: when it runs, in cycles since the start of the stream.
    """

    offset: int
    name: str
    cycles: int
    mac_cycles: int
    ifm_shape: tuple[int, int, int]
    ofm_shape: tuple[int, int, int]
    begin: int = 0
    end: int = 0


@dataclass(frozen=True)
class Timing:
    """Records of all operations of a program, in order, and PMU event counts."""

    ops: tuple[OpRecord, ...]
    cycles: int
    events: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Cost:
    """An operation by itself, in cycles.

    Attributes:
        engine, output, transfers: of all its blocks.
        fill, drain: before the first, and after the last.
        block: of one block, on average.
    """

    engine: MacEngine
    output: float
    transfers: Transfer
    fill: float
    drain: float
    block: float

    @property
    def cycles(self) -> int:
        """From begin to end."""
        return math.ceil(self.fill + max(self.engine.cycles, self.output, self.transfers.cycles) + self.drain)


def model(
    ops: Sequence[Op],
    configuration: Configuration,
    ports: Mapping[int, int] = DEFAULT_PORTS,
    gates: Mapping[int, Gate] | None = None,
    system: System | None = None,
) -> Timing:
    """Times operations.

    Args:
        ops: in the order in which they run.
        configuration: of the NPU.
        ports: region -> AXI port 0 or 1; 0 where it says nothing.
        gates: what each operation, by its offset, waits for; without, kernels and transfers wait for all before them.
        system: the memories; the generation's default without.
    """
    system = system or SYSTEMS[configuration.generation]
    costs: list[Cost] = []
    for number, op in enumerate(ops):
        last = ops[number - 1] if number else None
        # A pool moved from the one before (see `slices`) shares its kernel. It costs the same, wherever its maps are.
        again = isinstance(op, Pool) and isinstance(last, Pool) and op.kernel is last.kernel
        costs.append(costs[-1] if again else cost(op, configuration, system, ports))
    times = _schedule(ops, costs, gates, configuration)
    shares = _shares(ops, times)
    records = tuple(
        OpRecord(op.offset, op.name, share, math.ceil(each.engine.active), *_shapes(op), begin, end)
        for op, each, share, (begin, end) in zip(ops, costs, shares, times, strict=True)
    )
    total = max((end for _, end in times), default=0)
    events = {
        CYCLE: total,
        NPU_IDLE: 0,
        NPU_ACTIVE: total,
        MAC_ACTIVE: min(math.ceil(sum(each.engine.active for each in costs)), total),
        OUTPUT_ACTIVE: min(math.ceil(sum(each.output for each in costs)), total),
        DECODER_ACTIVE: min(math.ceil(sum(each.engine.decoding for each in costs)), total),
    }
    for port in (0, 1):
        events[AXI_READ_BEATS[port]] = sum(-(-each.transfers.read[port] // system.beat) for each in costs)
        events[AXI_WRITE_BEATS[port]] = sum(-(-each.transfers.written[port] // system.beat) for each in costs)
    return Timing(records, total, events)


def cost(op: Op, configuration: Configuration, system: System, ports: Mapping[int, int]) -> Cost:
    """One operation, as if nothing else ran."""
    moved = transfer(op, system, ports)
    if isinstance(op, Dma):
        return Cost(MacEngine(), 0.0, replace(moved, cycles=moved.alone), 0.0, 0.0, 0.0)
    number = blocks.count(op)
    engine = sum((multiplying(op, part, configuration) * n for part, n in _parts(op)), MacEngine())
    each = storing(op, configuration)
    output = each * op.ofm.elements
    output = max(output, scale_cycles(min(op.block.depth, op.ofm.depth), moved.scales) * number)
    fill, drain = moved.fill, moved.drain
    longest = max(engine.cycles, output, moved.cycles)
    if longest == engine.cycles:
        drain += output / number
    elif longest == output:
        fill += engine.cycles / number
    return Cost(engine, output, moved, fill, drain, longest / number)


def _schedule(
    ops: Sequence[Op], costs: Sequence[Cost], gates: Mapping[int, Gate] | None, configuration: Configuration
) -> list[tuple[int, int]]:
    """Begin and end of each operation."""
    limit = LIMITS[configuration.generation]
    kernels: list[int] = []  # ends, in order
    copies: list[int] = []
    times = []
    issued = 0
    previous: Cost | None = None
    chained = False
    for op, each in zip(ops, costs, strict=True):
        gate = Gate(0, 0) if gates is None else gates.get(op.offset, Gate())
        issued += ISSUE
        for ends, left in ((kernels, gate.kernels), (copies, gate.transfers)):
            if left is not None and len(ends) > left:
                issued = max(issued, ends[-1 - left])
        if isinstance(op, Dma):
            if len(copies) >= limit.transfers:
                issued = max(issued, copies[-limit.transfers])
            begin = max(issued, copies[-1] if copies else 0)
            copies.append(begin + each.cycles)
        else:
            if len(kernels) >= limit.kernels and not chained:
                issued = max(issued, kernels[-limit.kernels])
            begin = issued
            if kernels and previous is not None:
                early = min(gate.blocks * previous.block, previous.drain + each.fill)
                begin = max(begin, kernels[-1] - (0 if chained else math.floor(early)))
            kernels.append(max(begin + each.cycles, (kernels[-1] if kernels else 0) + math.ceil(each.drain)))
            previous = each
            chained = op.ofm.layout is Layout.CHAIN
        times.append((begin, (copies if isinstance(op, Dma) else kernels)[-1]))
    return times


def _shares(ops: Sequence[Op], times: Sequence[tuple[int, int]]) -> list[int]:
    """Cycles that belong to each operation; see the module."""
    shares = [0] * len(ops)
    gaps: list[tuple[int, int, int]] = []  # begin, end, the kernel after it, or the last operation
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
        for index, cycles in _covered(copies, first, begin, end, owner):
            shares[index] += cycles
    return shares


def _covered(
    copies: Sequence[tuple[int, int, int]], first: int, begin: int, end: int, owner: int
) -> Iterator[tuple[int, int]]:
    """Who owns the cycles of a gap between kernels: the transfers in it, and what comes next."""
    for start, stop, index in copies[first:]:
        if start >= end:
            break
        if start > begin:
            yield index, start - begin
            begin = start
        yield index, min(stop, end) - begin
        begin = min(stop, end)
    if begin < end:
        yield owner, end - begin


def _parts(op: blocks.Kernel) -> list[tuple[Block, int]]:
    """The different sizes of a kernel's OFM blocks, each with how many there are."""
    block = op.block
    return [
        (Block(height, width, depth, block.ublock), tall * wide * deep)
        for height, tall in blocks.sizes(op.ofm.height, block.height)
        for width, wide in blocks.sizes(op.ofm.width, block.width)
        for depth, deep in blocks.sizes(op.ofm.depth, block.depth)
    ]


def _shapes(op: Op) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    if isinstance(op, Dma):
        size = op.length * op.sizes[0] * op.sizes[1]
        return (1, 1, size), (1, 1, size)
    if isinstance(op, Elementwise):
        return (op.ifms[0].shape if op.ifms else (1, 1, 1)), op.ofm.shape
    return op.ifm.shape, op.ofm.shape
