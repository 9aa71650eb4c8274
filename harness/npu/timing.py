"""A model of how long the NPU takes, from the command stream alone. Provenance of its figures: "modelled".

    cycles(op) = OVERHEAD + max(engine, output, port 0, port 1), and operations follow one another

- engine, for a convolution: each OFM block is covered by micro-blocks; each takes one cycle per weight position of its
  channels / (micro-block depth * 8 IFM channels), where the padding that the weight stream has counts (WeightOrder),
  and a step of 4 such cycles takes no less than loading its weights does, 4 cycles per micro-block channel. A depthwise
  convolution takes one cycle per kernel element (rounded up to 4), a pool at least 4 per micro-block, a sum over
  channels one per 8 channels. Elementwise operations do not use the engine.
- output: elements * cycles per element for the kind of operation, from Vela's public estimator
  (ethosu/vela/architecture_features.py, output_cycles_per_elem); a look-up costs at least 1 cycle per element.
- ports: bytes / bytes per cycle. 8 for port 0 (64-bit AXI at the NPU's clock, SRAM), 1 for port 1: Vela's system
  configuration Ethos_U55_High_End_Embedded (OffChipFlash at 1/8 of the clock). Every byte of an input, weight stream,
  scale buffer or output counts once. Which region goes to which port is the driver's choice (REGIONCFG).

What it leaves out: reading inputs again for overlapping blocks, overlap between operations, latencies beyond OVERHEAD,
contention. It is meant for comparing programs, not for predicting a board.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.npu.configuration import Configuration
from harness.npu.operations import INTERNAL, Convolution, Dma, Elementwise, MatMul, Op, Pool, Resize
from harness.npu.registers import ElementwiseMode, PoolMode

OVERHEAD = 64  # cycles to start an operation and fill the pipeline: one off-chip read latency of the same configuration
BYTES_PER_CYCLE = (8.0, 1.0)  # ports 0 and 1
BEAT_BYTES = 8
DEFAULT_PORTS: Mapping[int, int] = {0: 1}  # constants come through port 1, everything else through port 0

# Cycles per output element: two 32-bit inputs, one, product to 32 bits, product, sum, maximum, anything else.
OUTPUT_CYCLES = {
    32: (2.0, 3.0, 3.0, 3.0, 6.0, 1.0, 2.0),
    64: (1.0, 1.5, 1.5, 1.5, 3.0, 0.5, 1.0),
    128: (0.75, 1.25, 0.75, 0.75, 1.5, 0.25, 0.5),
    256: (0.625, 1.125, 0.5, 0.375, 0.75, 0.125, 0.25),
}
LOOK_UP_CYCLES = 1.0

# PMU event numbers (ethosu/vela/ethos_u55_regs, pmu_event_type)
CYCLE = 17
NPU_IDLE = 32
NPU_ACTIVE = 35
MAC_ACTIVE = 48
AXI_READ_BEATS = (130, 386)
AXI_WRITE_BEATS = (135, 391)


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation of a program and what the model says about it.

    Attributes:
        offset: byte offset of its command word in the command stream.
        name: "CONV", "DEPTHWISE", "POOL MAX", "ELEMENTWISE ADD", "DMA", ...
        cycles: modelled.
        mac_cycles: of these, cycles in which the engine multiplies.
        ifm_shape, ofm_shape: (height, width, depth); (1, 1, bytes) for DMA.
    """

    offset: int
    name: str
    cycles: int
    mac_cycles: int
    ifm_shape: tuple[int, int, int]
    ofm_shape: tuple[int, int, int]


@dataclass(frozen=True)
class Timing:
    """Records of all operations of a program, in order, and PMU event counts."""

    ops: tuple[OpRecord, ...]
    cycles: int
    events: Mapping[int, int]


def model(ops: tuple[Op, ...], configuration: Configuration, ports: Mapping[int, int] = DEFAULT_PORTS) -> Timing:
    """Times a program; `ports` maps regions to AXI ports 0 or 1 (0 where it says nothing)."""
    records = []
    read_beats, write_beats = [0, 0], [0, 0]
    for op in ops:
        moved = [0, 0]
        for access in op.accesses:
            if access.region == INTERNAL:
                continue
            port = ports.get(access.region, 0)
            moved[port] += access.size
            beats = write_beats if access.write else read_beats
            beats[port] += -(-access.size // BEAT_BYTES)
        engine = engine_cycles(op, configuration)
        transfer = max(size / rate for size, rate in zip(moved, BYTES_PER_CYCLE, strict=True))
        cycles = OVERHEAD + math.ceil(max(engine, output_cycles(op, configuration), transfer))
        records.append(OpRecord(op.offset, op.name, cycles, engine, *_shapes(op)))
    total = sum(record.cycles for record in records)
    events = {
        CYCLE: total,
        NPU_IDLE: 0,
        NPU_ACTIVE: total,
        MAC_ACTIVE: sum(record.mac_cycles for record in records),
    }
    for port in (0, 1):
        events[AXI_READ_BEATS[port]] = read_beats[port]
        events[AXI_WRITE_BEATS[port]] = write_beats[port]
    return Timing(tuple(records), total, events)


def engine_cycles(op: Op, configuration: Configuration) -> int:
    """Cycles in which the MAC engine works on `op`."""
    if isinstance(op, Elementwise | Dma | Resize):
        return 0
    ublock_height, ublock_width, ublock_depth = op.block.ublock
    total = 0
    for height, tall in _cut(op.ofm.height, op.block.height):
        for width, wide in _cut(op.ofm.width, op.block.width):
            positions = -(-height // ublock_height) * -(-width // ublock_width)
            for depth, deep in _cut(op.ofm.depth, op.block.depth):
                ublocks = -(-depth // ublock_depth)
                total += tall * wide * deep * ublocks * _ublock_cycles(op, positions, ublock_depth)
    return total


def _ublock_cycles(op: Convolution | MatMul | Pool, positions: int, ublock_depth: int) -> int:
    """Engine cycles for `positions` micro-blocks side by side, of one micro-block depth."""
    if isinstance(op, MatMul):
        return -(-op.ifm.depth // 8) * positions
    if isinstance(op, Convolution):
        order = op.weights.order
        per_position = order.height * order.width * (1 if order.depthwise else -(-op.ifm.depth // 8))
        slow = 2 if op.ifm.bits == 16 else 1
        return -(-per_position // 4) * max(4 * positions * slow, 4 * ublock_depth)
    if op.mode is PoolMode.REDUCE_SUM:
        return -(-op.ifm.depth // 8) * positions
    return max(4, op.kernel.height * op.kernel.width) * positions


def output_cycles(op: Op, configuration: Configuration) -> float:
    """Cycles the output stage takes for all elements of `op`."""
    if isinstance(op, Dma):
        return 0.0
    two_words, one_word, product32, product, total, largest, other = OUTPUT_CYCLES[min(configuration.macs, 256)]
    each = other
    if isinstance(op, Elementwise):
        if op.ifms[0].bits == 32:
            each = two_words if len(op.ifms) > 1 else one_word
        elif op.mode is ElementwiseMode.MUL:
            each = product32 if op.ofm.bits == 32 else product
        elif op.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB):
            each = total
    elif isinstance(op, Pool):
        each = largest if op.mode is PoolMode.MAX else other
    elif isinstance(op, Convolution | MatMul) and op.accumulator_bits > 32:
        each = product
    if op.activation.table is not None:
        each = max(each, LOOK_UP_CYCLES)
    return each * op.ofm.elements


def _cut(size: int, block: int) -> list[tuple[int, int]]:
    """Sizes of the blocks that cover `size`, each with how often it occurs."""
    whole, rest = divmod(size, block)
    return [(length, count) for length, count in ((block, whole), (rest, 1)) if length and count]


def _shapes(op: Op) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    if isinstance(op, Dma):
        return (1, 1, op.length), (1, 1, op.length)
    source = op.ifms[0] if isinstance(op, Elementwise) else op.ifm
    return source.shape, op.ofm.shape
