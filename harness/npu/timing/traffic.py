"""The bytes that an operation moves over the AXI ports.

A block of a kernel fetches the part of its inputs that it needs, with the rows and columns that it shares with its
neighbours, for each part of the kernel (8x8 at most) its own. A convolution or matrix product needs its IFM again for
every block of output channels: Ethos-U55 and U65 fetch it again; an Ethos-U85 keeps what fits in its IFM memory, and
goes through the channels there and back, so that it fetches only the rest. Weights are fetched for every block in
height and width, on Ethos-U85 the scales too. Bricks are moved whole, with the lanes that fill them up, and a run of
bytes in whole words of the bus.

Vela's public estimators have the first of these rules. The others are from the words that FVPs count: with them this
module's counts are the published ones, in most cases to the word (suites/lab/prove/published).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
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
from ethos_hil.harness.npu.timing.throughput import SUBKERNEL


@dataclass(frozen=True)
class Flow:
    """Bytes that go one way between a region and the NPU.

    Attributes:
        region: the region's number.
        size: bytes.
        write: whether they go to memory.
        run: bytes that lie together.
        first: bytes that the first block waits for, or that the last one writes.
        purpose: "ifm" (windows of an input), "stream" (an input that is read once), "ofm", "weights", "scales" or
            "dma".
    """

    region: int
    size: int
    write: bool
    run: int
    first: int = 0
    purpose: str = "ifm"

    def bus_bytes(self, beat: int) -> float:
        """Return the bytes of the bus words that are moved for it; `beat` is the word's size."""
        run = max(min(self.run, self.size), 1)
        return self.size / run * (-(-run // beat) * beat)


def flows(op: Op, configuration: EthosU) -> Iterator[Flow]:
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
        yield from _windows(op, configuration)
    if isinstance(op, MatMul):
        yield from _whole(op.ifm2, op)
    if op.ofm.layout is not Layout.CHAIN:
        yield _write_flow(op)
    yield from _constants(op, configuration)


def _write_flow(op: Kernel) -> Flow:
    ofm, block = op.ofm, (op.block.height, op.block.width, op.block.depth)
    sizes = tuple(min(part, whole) for part, whole in zip(block, ofm.shape, strict=True))
    _, width, depth = (sizes[axis] for axis in ofm.axes)
    run = _run(ofm, depth, width)
    if ofm.layout is Layout.NHWC and depth > BRICK:
        run = BRICK * ofm.size
    size = ofm.height * ofm.width * _lanes(ofm, ofm.depth) * ofm.size
    return Flow(ofm.region, size, True, run, sizes[0] * sizes[1] * _lanes(ofm, sizes[2]) * ofm.size, "ofm")


def _lanes(feature_map: FeatureMap, depth: int) -> int:
    """Return the channels that are moved for `depth` channels."""
    return -(-depth // BRICK) * BRICK if feature_map.layout is Layout.BRICKS else depth


def _whole(source: FeatureMap, op: Kernel) -> Iterator[Flow]:
    if source.layout is not Layout.CHAIN:
        depth, width = min(op.block.depth, source.depth), min(op.block.width, source.width)
        first = min(op.block.height, source.height) * width * _lanes(source, depth) * source.size
        size = source.height * source.width * _lanes(source, source.depth) * source.size
        yield Flow(source.region, size, False, _run(source, depth, width), first, "stream")


def _windows(op: Convolution | MatMul | Pool, configuration: EthosU) -> Iterator[Flow]:
    """Yield the IFM of an operation that slides windows over it."""
    source = op.ifm
    if source.layout is Layout.CHAIN:
        return
    if isinstance(op, MatMul):
        rows, columns = op.ofm.height, op.ofm.width
        tall, wide = min(op.block.height, rows), min(op.block.width, columns)
    else:
        rows, tall = _spans(op, 0)
        columns, wide = _spans(op, 1)
    passes, depth = 1.0, min(op.block.depth, source.depth)
    if isinstance(op, MatMul) or (isinstance(op, Convolution) and not op.depthwise):
        passes, depth = _passes(op, tall * wide, configuration), min(source.depth, 32)
    elif isinstance(op, Pool) and op.mode is PoolMode.REDUCE_SUM:
        depth = min(source.depth, 32)
    first = tall * wide * _lanes(source, depth) * source.size
    size = math.ceil(rows * columns * _lanes(source, source.depth) * source.size * passes)
    yield Flow(source.region, size, False, _run(source, depth, wide), first)


def _spans(op: Convolution | Pool, axis: int) -> tuple[int, int]:
    """Return the input rows (axis 0) or columns (1) that all blocks fetch together, and the most that one does."""
    taps = op.kernel
    shrink = 1 if op.upscale is Upscale.NONE else 2
    whole, block, extent, stride, dilation, limit = (
        (op.ofm.height, op.block.height, taps.height, taps.stride_y, taps.dilation_y, op.ifm.height),
        (op.ofm.width, op.block.width, taps.width, taps.stride_x, taps.dilation_x, op.ifm.width),
    )[axis]
    total = most = 0
    for part, parts in blocks.sizes(extent, SUBKERNEL):
        reach = (part - 1) * dilation + 1
        for outputs, times in blocks.sizes(whole, block):
            span = min(-(-((outputs - 1) * stride + reach) // shrink), limit)
            total += parts * times * span
            most = max(most, span)
    return total, most


def _passes(op: Convolution | MatMul, positions: int, configuration: EthosU) -> float:
    """Return how often the IFM is fetched, for all blocks of output channels, `positions` at a time."""
    passes = -(-op.ofm.depth // op.block.depth)
    several = isinstance(op, Convolution) and max(op.kernel.height, op.kernel.width) > SUBKERNEL
    if several or not configuration.size.ifm_bytes:
        return passes
    channels = blocks.channels_at_a_time(op, configuration)
    parts = -(-op.ifm.depth // channels)
    kept = configuration.size.ifm_bytes // (positions * channels * op.ifm.size)
    return 1 + (passes - 1) * max(0, parts - kept) / parts


def _constants(op: Kernel, configuration: EthosU) -> Iterator[Flow]:
    spatial = -(-op.ofm.height // op.block.height) * -(-op.ofm.width // op.block.width)
    again = spatial if configuration.family.scales_again else 1
    if isinstance(op, Convolution):
        for stream in op.weights.streams:
            if stream.length:
                yield Flow(stream.region, stream.length * spatial, False, stream.length, purpose="weights")
        for stream in op.weights.scales:
            yield Flow(stream.region, stream.length * again, False, stream.length, purpose="scales")
    elif isinstance(op, Pool) and op.channel_scales is not None:
        for stream in op.channel_scales.streams:
            yield Flow(stream.region, stream.length, False, stream.length, purpose="scales")


def _run(source: FeatureMap, depth: int, width: int) -> int:
    """Return the bytes that lie together in a block of `depth` channels and `width` columns."""
    if source.layout is Layout.BRICKS:
        return BRICK * source.size * width
    together = depth * source.size
    return together * width if together == abs(source.stride_x) else together
