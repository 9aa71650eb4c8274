"""The blocks of a kernel: the part of the inputs that each reads, and the part of the output that each writes.

Blocks are ordered by channels first, then along a row, then downwards. A convolution that sums over more channels than
fit reads its IFM in several steps for each OFM block; these count as blocks of the reader.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu.isa.feature_map import FeatureMap
from ethos_hil.harness.npu.isa.operations import Convolution, Elementwise, MatMul, Pool, Resize, ResizeAxis, Upscale
from ethos_hil.harness.npu.isa.operations import Kernel as Taps
from ethos_hil.harness.npu.isa.registers import PoolMode
from ethos_hil.harness.npu.isa.weight_order import SUBKERNEL
from ethos_hil.harness.npu.timing.overlap import Box

Kernel = Convolution | MatMul | Pool | Elementwise | Resize

JOB_ROWS, JOB_COLUMNS = 32, 64
"""What the first jobs of a block read of its window, at most, on Ethos-U55 and U65.

A block with a kernel above 8x8 is several jobs, one for each part of 8x8 (register_command_stream_util.py of Vela 5.1
says so). Where BLOCKDEP lets three of them start early, these are in 24 rows and columns of the window, whatever their
order. Vela's Python generator counts this much, its largest OFM block (get_first_job_input_volume); its other generator
counts all of the window.
"""


def sizes(whole: int, block: int) -> list[tuple[int, int]]:
    """Return the sizes of the blocks that `whole` is cut into, each with how often it occurs."""
    number, rest = divmod(whole, block)
    return [(size, times) for size, times in ((block, number), (rest, 1)) if size and times]


def count(kernel: Kernel) -> int:
    """Return the number of OFM blocks."""
    rows, columns, slices = _split(kernel)
    return rows * columns * slices


def block_written(kernel: Kernel, index: int) -> Box:
    """Return the part of the OFM that block `index` writes."""
    ofm, block = kernel.ofm, kernel.block
    _, columns, slices = _split(kernel)
    y, x, c = (
        index // (columns * slices) * block.height,
        index // slices % columns * block.width,
        index % slices * block.depth,
    )
    return Box(
        y,
        min(y + block.height, ofm.height),
        x,
        min(x + block.width, ofm.width),
        c,
        min(c + block.depth, ofm.depth),
    )


def early_reads(kernel: Kernel, source: FeatureMap, configuration: EthosU) -> Iterator[Box]:
    """Yield the parts of an input that the kernel's jobs read, in order.

    A job is a block, or a part of one: some channels, and of a large kernel some of its elements. In which order these
    parts come is not established, so each job of a large kernel counts as all that jobs so far can have read.
    """
    limits = (JOB_ROWS, JOB_COLUMNS) if configuration.family.has_shram else None
    parts = 1 if limits is None else _subkernels(kernel)
    step = channels_at_a_time(kernel, configuration)
    for index in range(count(kernel)):
        out = block_written(kernel, index)
        starts = range(0, source.depth, step) if step else (out.c,)
        for job in range(len(starts) * parts):
            last = starts[min(job, len(starts) - 1)]
            c_end = min(last + step, source.depth) if step else out.c_end
            yield _read(kernel, source, out, last if parts == 1 else starts[0], c_end, limits)


def _subkernels(kernel: Kernel) -> int:
    """Return the parts that a kernel is processed in."""
    if isinstance(kernel, Elementwise | MatMul | Resize):
        return 1
    return math.prod(-(-extent // SUBKERNEL) for extent in _extents(kernel.kernel))


def _extents(taps: Taps) -> tuple[int, int]:
    """Return the rows and columns of a window."""
    return (taps.height - 1) * taps.dilation_y + 1, (taps.width - 1) * taps.dilation_x + 1


def channels_at_a_time(kernel: Kernel, configuration: EthosU) -> int:
    """Return the IFM channels that a block reads at a time; 0 where they are those of the OFM block."""
    if isinstance(kernel, Convolution):
        return 0 if kernel.depthwise else kernel.weights.order.ifm_block
    if not isinstance(kernel, MatMul) and not (isinstance(kernel, Pool) and kernel.mode is PoolMode.REDUCE_SUM):
        return 0
    channels = configuration.family.matmul_channels[kernel.ifm.bits]
    return min(channels, 32) if kernel.block.ublock[2] == configuration.size.shallow else channels


def _split(kernel: Kernel) -> tuple[int, int, int]:
    ofm, block = kernel.ofm, kernel.block
    return -(-ofm.height // block.height), -(-ofm.width // block.width), -(-ofm.depth // block.depth)


def _read(kernel: Kernel, source: FeatureMap, out: Box, c: int, c_end: int, limits: tuple[int, int] | None) -> Box:
    """Return the part of channels [c, c_end) that a block with output `out` reads; `limits` has the rows and columns of
    a window that count.
    """
    if isinstance(kernel, Elementwise):
        return _broadcast(out, source, kernel.ofm)
    if isinstance(kernel, Convolution | MatMul | Pool) and source is kernel.start:
        return out
    if isinstance(kernel, MatMul):
        if source is kernel.ifm2:
            return Box(0, 1, out.c, out.c_end, c, c_end)
        return Box(out.y, out.y_end, out.x, out.x_end, c, c_end)
    if isinstance(kernel, Resize):
        y, y_end = _resize(kernel.y, out.y, out.y_end)
        x, x_end = _resize(kernel.x, out.x, out.x_end)
    else:
        taps = kernel.kernel
        extents = _extents(taps)
        height, width = map(min, extents, limits or extents)
        y, y_end = _reach(out.y, out.y_end, taps.stride_y, height, taps.top)
        x, x_end = _reach(out.x, out.x_end, taps.stride_x, width, taps.left)
        if kernel.upscale is not Upscale.NONE:
            y, y_end, x, x_end = y // 2, -(-y_end // 2), x // 2, -(-x_end // 2)
    return Box(max(y, 0), min(y_end, source.height), max(x, 0), min(x_end, source.width), c, c_end)


def _broadcast(out: Box, source: FeatureMap, ofm: FeatureMap) -> Box:
    y, y_end = (0, 1) if source.height < ofm.height else (out.y, out.y_end)
    x, x_end = (0, 1) if source.width < ofm.width else (out.x, out.x_end)
    c, c_end = (0, 1) if source.depth < ofm.depth else (out.c, out.c_end)
    return Box(y, y_end, x, x_end, c, c_end)


def _reach(begin: int, end: int, stride: int, extent: int, padding: int) -> tuple[int, int]:
    """Return the input positions, before clipping, that output positions [begin, end) depend on."""
    return begin * stride - padding, (end - 1) * stride + extent - padding


def _resize(axis: ResizeAxis, begin: int, end: int) -> tuple[int, int]:
    """Return the same for RESIZE, whose positions lie between two of the input."""
    first, last = ((position * axis.step + axis.offset) // axis.scale for position in (begin, end - 1))
    return first, last + 2
