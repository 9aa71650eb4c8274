"""A model of how long the NPU takes, from the command stream alone. Provenance of its figures: "modelled".

A kernel is a pipeline over its blocks: fetch inputs, multiply, store outputs. It takes

    fill + max(multiplying, output, transfers) + drain

where the three are sums over all blocks, edges included (harness/npu/timing/throughput.py,
harness/npu/timing/traffic.py). `fill` is the time until the first inputs arrive, `drain` the time from the last block's
end until it is stored. Where output is the bottleneck, fill includes multiplying the first block; where multiplying is,
drain includes the output of the last one. A DMA transfer takes a latency and its bytes at the rate of the slower
memory.

Operations are issued in order. Waits, and the limit on outstanding operations, hold up the ones after them. Transfers
run one after another, concurrently with kernels. A kernel begins when its predecessor has ended; with a block
dependency, up to that many blocks earlier, but by no more than the predecessor's drain and its own fill.

The cycles of an operation are its share of the total: a cycle belongs to the kernel that runs in it (the earlier one
where two overlap), else to the transfer that does, else to the operation that begins next. Shares sum to the total.

What it leaves out: contention between kernels and transfers, internal memory that is occupied, the command parser, zero
runs that make weights cheaper to decode. It is for comparing programs, not for predicting a board: docs/npu.md says how
far it is from Vela's estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ethos_hil.harness.npu.decode.waits import Waits
from ethos_hil.harness.npu.isa.configuration import Configuration
from ethos_hil.harness.npu.isa.feature_map import Layout
from ethos_hil.harness.npu.isa.operations import Block, Dma, Elementwise, Op, Pool
from ethos_hil.harness.npu.timing import blocks
from ethos_hil.harness.npu.timing.hazards import LIMITS
from ethos_hil.harness.npu.timing.memory_system import DEFAULT_PORTS, SYSTEMS, MemorySystem
from ethos_hil.harness.npu.timing.throughput import MacTime, mac_time, output_cycles_per_element, scale_cycles
from ethos_hil.harness.npu.timing.traffic import Transfer, transfer

ISSUE = 8  # cycles between two operations, for the registers written between them, one per cycle

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
    """The time of one operation alone, in cycles.

    Attributes:
        engine, output, transfers: over all its blocks.
        fill, drain: before the first block, and after the last.
        block: of one block, on average.
    """

    engine: MacTime
    output: float
    transfers: Transfer
    fill: float
    drain: float
    block: float

    @property
    def cycles(self) -> int:
        """Cycles from begin to end."""
        return math.ceil(self.fill + max(self.engine.cycles, self.output, self.transfers.cycles) + self.drain)


def model(
    ops: Sequence[Op],
    configuration: Configuration,
    ports: Mapping[int, int] = DEFAULT_PORTS,
    waits: Mapping[int, Waits] | None = None,
    system: MemorySystem | None = None,
) -> Timing:
    """Model the timing of operations.

    Args:
        ops: in the order in which they run.
        configuration: of the NPU.
        ports: region -> AXI port 0 or 1; 0 where it has no entry.
        waits: the waits before each operation, by its offset; None: every operation waits for all before it.
        system: the memories; by default the generation's.
    """
    system = system or SYSTEMS[configuration.generation]
    costs: list[Cost] = []
    for number, op in enumerate(ops):
        last = ops[number - 1] if number else None
        # A pool repeated at other addresses (see `repeated_pools`) shares its predecessor's kernel, and costs the same.
        again = isinstance(op, Pool) and isinstance(last, Pool) and op.kernel is last.kernel
        costs.append(costs[-1] if again else cost(op, configuration, system, ports))
    times = _schedule(ops, costs, waits, configuration)
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


def cost(op: Op, configuration: Configuration, system: MemorySystem, ports: Mapping[int, int]) -> Cost:
    """Return the cost of one operation, as if nothing else ran."""
    moved = transfer(op, system, ports)
    if isinstance(op, Dma):
        return Cost(MacTime(), 0.0, replace(moved, busy=(moved.alone, moved.alone)), 0.0, 0.0, 0.0)
    number = blocks.count(op)
    engine = sum((mac_time(op, part, configuration) * n for part, n in _parts(op)), MacTime())
    each = output_cycles_per_element(op, configuration)
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
    ops: Sequence[Op], costs: Sequence[Cost], waits: Mapping[int, Waits] | None, configuration: Configuration
) -> list[tuple[int, int]]:
    """Return begin and end of each operation, in cycles."""
    limit = LIMITS[configuration.generation]
    kernels: list[int] = []  # ends, in order
    copies: list[int] = []
    times = []
    issued = 0
    previous: Cost | None = None
    chained = False
    for op, each in zip(ops, costs, strict=True):
        held = Waits(0, 0) if waits is None else waits.get(op.offset, Waits())
        issued += ISSUE
        for ends, left in ((kernels, held.kernels), (copies, held.transfers)):
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
                early = min(held.blocks * previous.block, previous.drain + each.fill)
                begin = max(begin, kernels[-1] - (0 if chained else math.floor(early)))
            kernels.append(max(begin + each.cycles, (kernels[-1] if kernels else 0) + math.ceil(each.drain)))
            previous = each
            chained = op.ofm.layout is Layout.CHAIN
        times.append((begin, (copies if isinstance(op, Dma) else kernels)[-1]))
    return times


def _shares(ops: Sequence[Op], times: Sequence[tuple[int, int]]) -> list[int]:
    """Return the cycles that belong to each operation, as the module's docstring defines them."""
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
    """Return the different sizes of a kernel's OFM blocks, each with their number."""
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
