"""A model of how long the NPU takes, from the command stream alone. Provenance of its figures: "modelled".

    throughput.py      what the MAC engine and the output stage need for a block
    traffic.py         the bytes that an operation moves
    memory_system.py   the memories
    kernel_cost.py     one operation alone
    schedule.py        all of them, one after another and side by side
    rules.py           how well each rule is validated

What differs between NPUs is in ethos_hil/base/npu.

It follows published runs of Arm's FVPs, which suites/lab/prove/published compares it with; docs/npu.md has the errors.
It leaves out refresh and arbitration of real memories, and the order of zeros in weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import MemorySystem
from ethos_hil.harness.npu.decode.waits import Waits
from ethos_hil.harness.npu.isa.operations import Dma, Op, Pool
from ethos_hil.harness.npu.timing.kernel_cost import Cost, cost
from ethos_hil.harness.npu.timing.memory_system import DEFAULT_PORTS
from ethos_hil.harness.npu.timing.schedule import schedule

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


@dataclass(frozen=True)
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
