"""The check for missing waits: accesses that the hardware may reorder, and that the sequential model hides.

These operations may run at the same time, according to Vela's two code generators (register_command_stream_util.py in
the wheel; regor's register command stream generators):

- Kernels are issued in order, transfers (DMA) too, and the two kinds run concurrently. A transfer may overlap with
  earlier transfers.
- At most two kernels, and as many transfers as the family can have, are outstanding; issuing one more waits for the
  oldest of its kind.
- DMA_WAIT n and KERNEL_WAIT n wait until at most n are outstanding.
- A kernel overlaps with its direct predecessor only, with at most the last BLOCKDEP blocks of it: its own block i (from
  0) may read while the predecessor's blocks up to j from the last are unwritten, i + j < BLOCKDEP. Reads of kernels
  happen in order, and so do their writes, so that between kernels only a read of what the predecessor writes is a
  hazard.
- Kernels chained through internal buffers (Ethos-U85) run as one. Those that share accumulators do not.
- SHRAM of 16 KB (ethos-u55-32 and -64) has no separate banks for look-up tables: a kernel without a table overwrites
  them, from its first block on.

A hazard is two accesses to one byte, one of them a write, that nothing keeps in order. Feature maps are compared byte
by byte, other accesses by extent. The unused lanes of a map's bricks do not count: they are read, but what is in them
changes no result. The regions of a program are assumed not to overlap.

That silicon behaves like this is Vela's claim; it is not established here.

The blocks of a kernel, and whether two feature maps, or parts of them, share a byte of memory.

Extents are not enough: the slices of a concatenation along the channels interleave, so their extents overlap although
no byte belongs to both.

Blocks are ordered by channels first, then along a row, then downwards. A convolution that sums over more channels than
fit reads its IFM in several steps for each OFM block; these count as blocks of the reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.compute.output import table_bytes
from ethos_hil.harness.npu.decode.fields import Waits, find_waits
from ethos_hil.harness.npu.isa.feature_map import BRICK, FeatureMap, Layout
from ethos_hil.harness.npu.isa.operations import (
    INTERNAL,
    Access,
    Convolution,
    Dma,
    Elementwise,
    MatMul,
    Op,
    Pool,
    Resize,
    ResizeAxis,
    Upscale,
)
from ethos_hil.harness.npu.isa.registers import PoolMode
from ethos_hil.harness.npu.isa.stream import Fault

Array = npt.NDArray[Any]

MAX_RUNS = 1 << 21  # above it only extents are compared; operations of real networks stay far below


@dataclass(frozen=True, slots=True)
class Box:
    """Part of a feature map: rows [y, y_end), columns [x, x_end), channels [c, c_end), in the map's own axes."""

    y: int
    y_end: int
    x: int
    x_end: int
    c: int
    c_end: int

    @property
    def empty(self) -> bool:
        """Whether the part has no elements."""
        return self.y >= self.y_end or self.x >= self.x_end or self.c >= self.c_end

    @classmethod
    def whole(cls, feature_map: FeatureMap) -> Box:
        """Return all of a map."""
        return cls(0, feature_map.height, 0, feature_map.width, 0, feature_map.depth)


@dataclass(frozen=True, slots=True)
class Runs:
    """Equally long runs of bytes: base + any multiples, below their counts, of the strides + [0, length)."""

    base: int
    length: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def begin(self) -> int:
        """First byte."""
        return self.base + sum((n - 1) * s for n, s in zip(self.counts, self.strides, strict=True) if s < 0)

    @property
    def end(self) -> int:
        """Byte after the last one."""
        steps = sum((n - 1) * s for n, s in zip(self.counts, self.strides, strict=True) if s > 0)
        return self.base + steps + self.length

    def starts(self) -> Array:
        """Return where each run starts, ascending; if there are too many, only the first byte of the extent."""
        if np.prod(self.counts, dtype=float) > MAX_RUNS:
            return np.array([self.begin])
        starts = np.array([self.base])
        for count, stride in zip(self.counts, self.strides, strict=True):
            starts = (starts[:, None] + np.arange(count) * stride).ravel()
        starts.sort()
        return starts


def runs(feature_map: FeatureMap, box: Box) -> Iterator[Runs]:
    """Yield the bytes of a part of a map; nothing for a chain, which is not in memory."""
    if feature_map.layout is Layout.CHAIN or box.empty:
        return
    spans = [(box.y, box.y_end), (box.x, box.x_end), (box.c, box.c_end)]
    backwards = feature_map.reverse
    if backwards is not None:
        size = feature_map.shape[backwards]
        begin, end = spans[backwards]
        spans[backwards] = size - end, size - begin
    (y, y_end), (x, x_end), (c, c_end) = (spans[axis] for axis in feature_map.axes)
    for tile in feature_map.tiles():
        top, bottom = max(y, tile.y), min(y_end, tile.y_end)
        left, right = max(x, tile.x), min(x_end, tile.x_end)
        if top >= bottom or left >= right:
            continue
        corner = tile.base + (top - tile.y) * feature_map.stride_y + (left - tile.x) * feature_map.stride_x
        plane = [(bottom - top, feature_map.stride_y), (right - left, feature_map.stride_x)]
        if feature_map.layout is Layout.NHWC:
            yield _join(corner + c * feature_map.size, (c_end - c) * feature_map.size, plane)
            continue
        for brick, count, lane, lanes in _bricks(c, c_end):
            base = corner + brick * feature_map.stride_c + lane * feature_map.size
            yield _join(base, lanes * feature_map.size, [*plane, (count, feature_map.stride_c)])


def _bricks(c: int, c_end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the bricks that hold channels [c, c_end): first brick, number of equal ones, first lane, lanes."""
    if c % BRICK:
        end = min(c_end, c - c % BRICK + BRICK)
        yield c // BRICK, 1, c % BRICK, end - c
        c = end
    whole = (c_end - c) // BRICK
    if whole:
        yield c // BRICK, whole, 0, BRICK
        c += whole * BRICK
    if c < c_end:
        yield c // BRICK, 1, 0, c_end - c


def _join(base: int, length: int, axes: list[tuple[int, int]]) -> Runs:
    """Return runs in which adjacent ones are joined."""
    rest = []
    for count, stride in sorted(((n, s) for n, s in axes if n > 1), key=lambda axis: abs(axis[1])):
        if stride == length:
            length *= count
        else:
            rest.append((count, stride))
    return Runs(base, length, tuple(n for n, _ in rest), tuple(s for _, s in rest))


def common_byte(runs: Runs, other: Runs) -> int | None:
    """Return the lowest address that both have, or None."""
    if runs.end <= other.begin or other.end <= runs.begin:
        return None
    if not runs.counts and not other.counts:
        return max(runs.base, other.base)
    first, second = runs.starts(), other.starts()
    first_length = runs.length if first.size > 1 else runs.end - runs.begin
    second_length = other.length if second.size > 1 else other.end - other.begin
    # A run of the second overlaps the runs of the first that start before its end and end after its start.
    low = np.searchsorted(first, second - first_length, side="right")
    high = np.searchsorted(first, second + second_length, side="left")
    meeting = np.flatnonzero(low < high)
    if not meeting.size:
        return None
    at = meeting[0]
    return int(max(first[low[at]], second[at]))


Kernel = Convolution | MatMul | Pool | Elementwise | Resize


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
        y, min(y + block.height, ofm.height), x, min(x + block.width, ofm.width), c, min(c + block.depth, ofm.depth)
    )


def reads(kernel: Kernel, source: FeatureMap, configuration: EthosU) -> Iterator[Box]:
    """Yield the parts of an input that the kernel's blocks read, in order."""
    step = channels_at_a_time(kernel, configuration)
    for index in range(count(kernel)):
        out = block_written(kernel, index)
        starts = range(0, source.depth, step) if step else (out.c,)
        for c in starts:
            c_end = min(c + step, source.depth) if step else out.c_end
            yield _read(kernel, source, out, c, c_end)


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


def _read(kernel: Kernel, source: FeatureMap, out: Box, c: int, c_end: int) -> Box:
    """Return the part of channels [c, c_end) that a block with output `out` reads."""
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
        y, y_end = _reach(out.y, out.y_end, taps.stride_y, (taps.height - 1) * taps.dilation_y + 1, taps.top)
        x, x_end = _reach(out.x, out.x_end, taps.stride_x, (taps.width - 1) * taps.dilation_x + 1, taps.left)
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


@dataclass(frozen=True, slots=True)
class Touch:
    """Bytes of a region that an operation reads or writes; `source` is the feature map they belong to, if any."""

    region: int
    begin: int
    end: int
    write: bool
    source: FeatureMap | None = None


@dataclass(frozen=True, slots=True)
class Hazard:
    """Two operations that nothing keeps in order, though one writes what the other reads or writes.

    Attributes:
        first, second: the operations, in the order of the stream.
        first_writes, second_writes: whether each writes the bytes.
        region: of the bytes; INTERNAL is memory inside the NPU.
        begin, end: the range in which their accesses overlap; `byte` is one that both touch.
        wait: the command or register that would prevent it, and the largest value that does.
    """

    first: Op
    second: Op
    first_writes: bool
    second_writes: bool
    region: int
    begin: int
    end: int
    byte: int
    wait: tuple[str, int]

    def __str__(self) -> str:
        where = "internal memory" if self.region == INTERNAL else f"region {self.region}"
        return (
            f"{_name(self.second)} {_verb(self.second_writes)} {where} at {self.byte:#x} (of {self.begin:#x} to "
            f"{self.end:#x}) while {_name(self.first)} may not have {_participle(self.first_writes)} it; "
            f"{self._remedy()}"
        )

    def _remedy(self) -> str:
        name, value = self.wait
        return f"BLOCKDEP may be {value} at most" if name == "BLOCKDEP" else f"missing: {name} {value}"

    def fault(self) -> Fault:
        """Return the hazard as the fault of a strict NPU."""
        register, value = self.wait
        return Fault(FailureKind.HAZARD, self.second.offset, self.second.name, register, value, str(self))


@dataclass(slots=True)
class _Kernel:
    """One kernel, or several chained ones, with the bytes they touch."""

    ops: list[Kernel]
    touches: list[tuple[Kernel, Touch]]


def find(ops: Sequence[Op], stream: bytes, configuration: EthosU) -> tuple[Hazard, ...]:
    """Return all hazards of a program, in the order of their second operations.

    Args:
        ops: the operations that `stream` was decoded to.
        stream: the register command stream.
        configuration: of the NPU.
    """
    return tuple(_Checker(configuration).run(ops, find_waits(stream, ops)))


class _Checker:
    def __init__(self, configuration: EthosU) -> None:
        self.configuration = configuration
        self.family = configuration.family
        self.kernels: deque[_Kernel] = deque()
        self.transfers: deque[tuple[Dma, list[Touch]]] = deque()
        self.chained = False  # whether the next operation belongs to the last kernel
        self.previous: _Kernel | None = None

    def run(self, ops: Sequence[Op], waits: Sequence[Waits]) -> Iterator[Hazard]:
        for op, held in zip(ops, waits, strict=True):
            if held.kernels is not None:
                _drop_oldest(self.kernels, held.kernels)
            if held.transfers is not None:
                _drop_oldest(self.transfers, held.transfers)
            if isinstance(op, Dma):
                yield from self._transfer(op)
            else:
                yield from self._kernel(op, held)

    def _transfer(self, op: Dma) -> Iterator[Hazard]:
        _drop_oldest(self.transfers, self.family.transfers - 1)
        touches = [_touch(access) for access in op.accesses]
        for behind, (other, others) in enumerate(reversed(self.transfers)):
            yield from _hazards_between(other, others, op, touches, ("DMA_WAIT", behind))
        for behind, kernel in enumerate(reversed(self.kernels)):
            for member, touch in kernel.touches:
                yield from _hazards_between(member, [touch], op, touches, ("KERNEL_WAIT", behind))
        self.transfers.append((op, touches))

    def _kernel(self, op: Kernel, held: Waits) -> Iterator[Hazard]:
        touches = list(self._touches(op))
        for behind, (other, others) in enumerate(reversed(self.transfers)):
            yield from _hazards_between(other, others, op, touches, ("DMA_WAIT", behind))
        if self.chained:
            kernel = self.kernels[-1]
        else:
            _drop_oldest(self.kernels, self.family.kernels - 1)
            self.previous = self.kernels[-1] if self.kernels else None
            kernel = _Kernel([], [])
            self.kernels.append(kernel)
        kernel.ops.append(op)
        kernel.touches += [(op, touch) for touch in touches]
        if self.previous is not None and held.blocks:
            yield from self._overlap(self.previous, op, touches, held.blocks)
        self.chained = op.ofm.layout is Layout.CHAIN and not op.ofm.is_accumulators

    def _overlap(self, previous: _Kernel, op: Kernel, touches: list[Touch], depth: int) -> Iterator[Hazard]:
        """Yield what `op` does too early when it starts `depth` blocks before the end of `previous`."""
        for other, written in previous.touches:
            for touch in touches:
                tables = touch.region == INTERNAL and touch.write and not written.write
                if not tables and not (written.write and not touch.write):
                    continue
                byte = _shared_byte(written, touch)
                if byte is None:
                    continue
                safe = 0
                if touch.source is not None and written.source is not None:
                    safe, byte = self._safe_depth(other, op, touch.source, depth, byte)
                if safe < depth:
                    yield _hazard(other, written, op, touch, byte, ("BLOCKDEP", safe))

    def _safe_depth(self, writer: Kernel, reader: Kernel, source: FeatureMap, depth: int, byte: int) -> tuple[int, int]:
        """Return the largest safe block dependency up to `depth`, and a byte that a block would read too early beyond
        it.
        """
        last = count(writer) - 1
        unwritten = [block_written(writer, last - j) for j in range(min(depth, last + 1))]
        safe = depth
        for i, part in enumerate(islice(reads(reader, source, self.configuration), depth)):
            for j, late in enumerate(unwritten[: max(safe - i, 0)]):
                shared = _first_common(runs(source, part), list(runs(writer.ofm, late)))
                if shared is not None:
                    safe, byte = i + j, shared
                    break
        return safe, byte

    def _touches(self, op: Kernel) -> Iterator[Touch]:
        for access in op.accesses:
            yield _touch(access, (op.ofm,) if access.write else inputs(op))
        table = op.activation.table
        if table is not None:
            yield Touch(INTERNAL, table, table + table_bytes(op.activation.index_bits, op.ofm.bits), write=False)
        elif self.configuration.size.shares_tables:
            yield Touch(INTERNAL, self.configuration.lut_base, self.configuration.size.internal_bytes, write=True)


def inputs(op: Kernel) -> tuple[FeatureMap, ...]:
    """Return the feature maps that a kernel reads."""
    if isinstance(op, Elementwise):
        return op.ifms
    more = (op.ifm2,) if isinstance(op, MatMul) else ()
    if isinstance(op, Convolution | MatMul | Pool) and op.start is not None:
        more = (*more, op.start)
    return (op.ifm, *more)


def _touch(access: Access, maps: tuple[FeatureMap, ...] = ()) -> Touch:
    """Return an access as a touch, with the map among `maps` that has its extent."""
    for source in maps:
        extent = source.extent(whole_bricks=not access.write)
        if source.region == access.region and extent == (access.begin, access.end):
            return Touch(access.region, access.begin, access.end, access.write, source)
    return Touch(access.region, access.begin, access.end, access.write)


def _shared_byte(touch: Touch, other: Touch) -> int | None:
    """Return a byte that both touch, or None."""
    if touch.region != other.region or touch.end <= other.begin or other.end <= touch.begin:
        return None
    if touch.source is None and other.source is None:
        return max(touch.begin, other.begin)
    return _first_common(_runs(touch), _runs(other))


def _runs(touch: Touch) -> list[Runs]:
    """Return the bytes of a touch: those of the map's elements, without the unused lanes of its bricks."""
    if touch.source is None:
        return [Runs(touch.begin, touch.end - touch.begin, (), ())]
    return list(runs(touch.source, Box.whole(touch.source)))


def _first_common(some: Iterable[Runs], others: Sequence[Runs]) -> int | None:
    for candidate in some:
        for other in others:
            byte = common_byte(candidate, other)
            if byte is not None:
                return byte
    return None


def _hazards_between(
    first: Op, firsts: Sequence[Touch], second: Op, seconds: Sequence[Touch], wait: tuple[str, int]
) -> Iterator[Hazard]:
    for touch in firsts:
        for other in seconds:
            if touch.write or other.write:
                byte = _shared_byte(touch, other)
                if byte is not None:
                    yield _hazard(first, touch, second, other, byte, wait)


def _hazard(first: Op, touch: Touch, second: Op, other: Touch, byte: int, wait: tuple[str, int]) -> Hazard:
    begin, end = max(touch.begin, other.begin), min(touch.end, other.end)
    return Hazard(first, second, touch.write, other.write, touch.region, begin, end, byte, wait)


def _drop_oldest(outstanding: deque[Any], number: int) -> None:
    """Drop the oldest until `number` are left."""
    while len(outstanding) > number:
        outstanding.popleft()


def _name(op: Op) -> str:
    return f"{op.name} at {op.offset:#x}"


def _verb(write: bool) -> str:
    return "writes" if write else "reads"


def _participle(write: bool) -> str:
    return "written" if write else "read"
