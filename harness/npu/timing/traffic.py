"""The bytes that an operation moves over the AXI ports, and how long that takes.

Each block of a kernel fetches the part of its inputs that it needs, including the rows and columns it shares with its
neighbours, once for each 8x8 part of the kernel; a convolution or matrix product does so again for every block of
output channels. Weights are fetched again for every block in height and width. A transaction moves bytes that lie
together in memory, so that short runs waste the rest of a burst. These are the rules of Vela's public estimators; the
areas are exact here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ethos_hil.harness.npu.isa.feature_map import BRICK, FeatureMap, Layout
from ethos_hil.harness.npu.isa.operations import (
    INTERNAL,
    Convolution,
    Dma,
    Elementwise,
    MatMul,
    Op,
    Pool,
    Resize,
    Upscale,
)
from ethos_hil.harness.npu.isa.registers import PoolMode
from ethos_hil.harness.npu.timing import blocks
from ethos_hil.harness.npu.timing.blocks import Kernel
from ethos_hil.harness.npu.timing.memory_system import MemorySystem
from ethos_hil.harness.npu.timing.throughput import SUBKERNEL


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes that go one way between a region and the NPU.

    Attributes:
        region: the region's number.
        size: bytes.
        write: whether they go to memory.
        run: bytes that lie together.
        first: bytes that the first block waits for, or that the last one writes.
        purpose: "ifm", "ofm", "weights", "scales" or "dma".
    """

    region: int
    size: int
    write: bool
    run: int
    first: int = 0
    purpose: str = "ifm"


def flows(op: Op) -> Iterator[Flow]:
    """Yield everything that `op` reads and writes outside of the NPU."""
    if isinstance(op, Dma):
        size = op.length * op.sizes[0] * op.sizes[1]
        for access in op.accesses:
            moved = size if access.register.startswith(("DMA0_SRC", "DMA0_DST")) else access.size
            if access.region != INTERNAL:
                yield Flow(access.region, moved, access.write, op.length, purpose="dma")
        return
    if isinstance(op, Elementwise):
        for source in op.ifms:
            yield from _whole(source, op)
    elif isinstance(op, Resize):
        yield from _whole(op.ifm, op)
    else:
        yield from _windows(op)
    if isinstance(op, MatMul):
        yield from _whole(op.ifm2, op)
    if op.ofm.layout is not Layout.CHAIN:
        block = (op.block.height, op.block.width, op.block.depth)
        sizes = tuple(min(part, whole) for part, whole in zip(block, op.ofm.shape, strict=True))
        _, width, depth = (sizes[axis] for axis in op.ofm.axes)
        run = _run(op.ofm, depth, width)
        if op.ofm.layout is Layout.NHWC and depth > BRICK:
            run = BRICK * op.ofm.size
        size = op.ofm.elements * op.ofm.size
        yield Flow(op.ofm.region, size, True, run, math.prod(sizes) * op.ofm.size, "ofm")
    yield from _constants(op)


def _whole(source: FeatureMap, op: Kernel) -> Iterator[Flow]:
    if source.layout is not Layout.CHAIN:
        block = min(op.block.depth, source.depth), min(op.block.width, source.width)
        first = min(op.block.height, source.height) * block[0] * block[1] * source.size
        yield Flow(source.region, source.elements * source.size, False, _run(source, *block), first)


def _windows(op: Convolution | MatMul | Pool) -> Iterator[Flow]:
    """Yield the IFM of an operation that slides windows over it."""
    source = op.ifm
    if source.layout is Layout.CHAIN:
        return
    if isinstance(op, MatMul):
        rows, columns, passes = op.ofm.height, op.ofm.width, 1
        first_rows, first_columns = min(op.block.height, rows), min(op.block.width, columns)
    else:
        taps = op.kernel
        shrink = 1 if op.upscale is Upscale.NONE else 2
        tall = (taps.height - 1) * taps.dilation_y + 1
        wide = (taps.width - 1) * taps.dilation_x + 1
        rows = sum(
            count * _span(n, taps.stride_y, tall, shrink, source.height)
            for n, count in blocks.sizes(op.ofm.height, op.block.height)
        )
        columns = sum(
            count * _span(n, taps.stride_x, wide, shrink, source.width)
            for n, count in blocks.sizes(op.ofm.width, op.block.width)
        )
        passes = -(-taps.height // SUBKERNEL) * -(-taps.width // SUBKERNEL)
        first_rows = _span(min(op.block.height, op.ofm.height), taps.stride_y, tall, shrink, source.height)
        first_columns = _span(min(op.block.width, op.ofm.width), taps.stride_x, wide, shrink, source.width)
    sums = isinstance(op, MatMul) or (isinstance(op, Convolution) and not op.depthwise)
    if sums:
        passes *= -(-op.ofm.depth // op.block.depth)
    depth = min(op.block.depth, source.depth)
    if sums or (isinstance(op, Pool) and op.mode is PoolMode.REDUCE_SUM):
        depth = min(source.depth, 32)
    first = first_rows * first_columns * depth * source.size
    size = rows * columns * source.depth * source.size * passes
    yield Flow(source.region, size, False, _run(source, depth, first_columns), first)


def _constants(op: Kernel) -> Iterator[Flow]:
    spatial = -(-op.ofm.height // op.block.height) * -(-op.ofm.width // op.block.width)
    if isinstance(op, Convolution):
        for stream in op.weights.streams:
            if stream.length:
                yield Flow(stream.region, stream.length * spatial, False, stream.length, purpose="weights")
        for stream in op.weights.scales:
            yield Flow(stream.region, stream.length, False, stream.length, purpose="scales")
    elif isinstance(op, Pool) and op.channel_scales is not None:
        for stream in op.channel_scales.streams:
            yield Flow(stream.region, stream.length, False, stream.length, purpose="scales")


def _span(outputs: int, stride: int, extent: int, shrink: int, limit: int) -> int:
    """Return the number of input rows or columns that `outputs` output ones need."""
    return min(-(-((outputs - 1) * stride + extent) // shrink), limit)


def _run(source: FeatureMap, depth: int, width: int) -> int:
    """Return the bytes that lie together in a block of `depth` channels and `width` columns."""
    if source.layout is Layout.BRICKS:
        return BRICK * source.size * width
    together = depth * source.size
    return together * width if together == abs(source.stride_x) else together


@dataclass(frozen=True, slots=True)
class Transfer:
    """How long the memories take for an operation, in cycles.

    Attributes:
        busy: for all of it, by port.
        alone: for the slowest way in or out by itself, its latency included.
        fill: until the first block of inputs arrives.
        drain: from the last block of outputs until it is stored.
        scales: latency of the memory that scales come from.
        read, written: bytes, by port.
    """

    busy: tuple[float, float]
    alone: float
    fill: float
    drain: float
    scales: int
    read: tuple[int, int]
    written: tuple[int, int]

    @property
    def cycles(self) -> float:
        """For all of it, by the busiest port."""
        return max(self.busy)


def transfer(op: Op, system: MemorySystem, ports: Mapping[int, int]) -> Transfer:
    """Return the transfers of one operation."""
    busy, read, written = [0.0, 0.0], [0, 0], [0, 0]
    alone = fill = drain = 0.0
    scales = 0
    for flow in flows(op):
        number = ports.get(flow.region, 0)
        port = system.ports[number]
        (written if flow.write else read)[number] += flow.size
        waste = port.burst / max(min(port.burst, flow.run), 1)
        busy[number] += flow.size * waste / port.rate
        latency = port.write_latency if flow.write else port.read_latency
        alone = max(alone, latency + flow.size / port.rate)
        if flow.purpose == "scales":
            scales = max(scales, latency)
        if flow.write:
            drain = max(drain, latency + flow.first * waste / port.rate)
        else:
            fill = max(fill, latency + flow.first * waste / port.rate)
    return Transfer((busy[0], busy[1]), alone, fill, drain, scales, (read[0], read[1]), (written[0], written[1]))
