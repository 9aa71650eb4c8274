"""Compressed weights and scale buffers: bytes of a region to arrays ready for multiplication.

Weights come as a bit stream (decoded by the codec in Vela's wheel) in the order in which the NPU consumes them. The
order depends on registers only; its nesting, established for all four sizes, is from outer to inner: OFM block, IFM
block, sub-kernel (8 / dilation steps in y, then x), [part-kernel: IFM micro-block], OFM micro-block, kernel element
(count rounded up), [depth-first: IFM micro-block], OFM channel, IFM channel. Positions outside of the tensor are zero.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.npu import codec

Array = npt.NDArray[Any]

CACHE_BYTES = 256 << 20
SCALE_BYTES = 10  # per channel: 40-bit bias, 32-bit multiplier, 6-bit shift
SUBKERNEL = 8  # steps a sub-kernel spans, before dilation


@dataclass(frozen=True, slots=True)
class WeightOrder:
    """Shape and order of a weight stream.

    Attributes:
        depthwise: one IFM channel per OFM channel.
        part_kernel: kernel elements before IFM channels ("part-kernel-first"), else depth first.
        ofm_depth, ifm_depth, height, width: the weight tensor; ifm_depth is 1 if depthwise.
        dilation_y, dilation_x: of the kernel; a sub-kernel spans SUBKERNEL // dilation elements.
        ofm_block: OFM channels in a block.
        ofm_ublock, ifm_ublock: channels in a micro-block.
        ifm_bits: of an IFM element.
    """

    depthwise: bool
    part_kernel: bool
    ofm_depth: int
    ifm_depth: int
    height: int
    width: int
    dilation_y: int
    dilation_x: int
    ofm_block: int
    ofm_ublock: int
    ifm_ublock: int
    ifm_bits: int

    @property
    def ifm_block(self) -> int:
        """IFM channels in a block."""
        return 16 if self.part_kernel or self.ifm_bits == 16 else 32

    @property
    def element_step(self) -> int:
        """To what the number of elements in a sub-kernel is rounded up."""
        if self.depthwise:
            return 4
        if self.part_kernel:
            return 2 if self.ifm_bits == 16 else 4
        return 1

    def subkernels(self) -> Iterator[tuple[int, int, int, int]]:
        """y, x, height, width of each sub-kernel, in stream order."""
        step_y = max(1, SUBKERNEL // self.dilation_y)
        step_x = max(1, SUBKERNEL // self.dilation_x)
        for y in range(0, self.height, step_y):
            for x in range(0, self.width, step_x):
                yield y, x, min(step_y, self.height - y), min(step_x, self.width - x)

    def padded_elements(self) -> int:
        """Kernel elements including padding, over all sub-kernels."""
        return sum(_up(h * w, self.element_step) for _, _, h, w in self.subkernels())

    def ofm_groups(self) -> list[tuple[int, int, int]]:
        """First channel, number and depth of equal OFM blocks: all whole ones, then the rest."""
        return _groups(self.ofm_depth, self.ofm_block)

    def ifm_groups(self) -> list[tuple[int, int, int]]:
        """First channel, number and depth in channels (whole micro-blocks) of equal IFM blocks."""
        if self.depthwise:
            return [(0, 1, 1)]
        if not self.part_kernel:
            return [(0, -(-self.ifm_depth // self.ifm_block), self.ifm_block)]
        return [(z, n, _up(depth, self.ifm_ublock)) for z, n, depth in _groups(self.ifm_depth, self.ifm_block)]

    @property
    def length(self) -> int:
        """Weights in the stream, padding included."""
        ifm = sum(n * depth for _, n, depth in self.ifm_groups())
        ofm = sum(n * _up(depth, self.ofm_ublock) for _, n, depth in self.ofm_groups())
        return ofm * ifm * self.padded_elements()

    def restore(self, stream: Array) -> Array:
        """The weight tensor, shape (ofm_depth, height, width, ifm_depth), from a stream of `length` values."""
        weights = np.zeros(
            (
                sum(n * depth for _, n, depth in self.ofm_groups()),
                self.height,
                self.width,
                sum(n * depth for _, n, depth in self.ifm_groups()),
            ),
            stream.dtype,
        )
        at = 0
        elements = self.padded_elements()
        ifm_total = weights.shape[3]
        for z, blocks, depth in self.ofm_groups():
            depth_up = _up(depth, self.ofm_ublock)
            count = blocks * depth_up * ifm_total * elements
            part = stream[at : at + count].reshape(blocks, depth_up * ifm_total * elements)
            self._restore_blocks(part, weights[z : z + blocks * depth], depth, depth_up)
            at += count
        return weights[:, :, :, : self.ifm_depth]

    def _restore_blocks(self, part: Array, weights: Array, depth: int, depth_up: int) -> None:
        """Fills `weights` (blocks * depth, height, width, ifm) from `part` (blocks, stream of one block)."""
        blocks = part.shape[0]
        elements = self.padded_elements()
        at = 0
        for z, ifm_blocks, ifm_depth in self.ifm_groups():
            size = depth_up * ifm_depth * elements
            one = part[:, at : at + ifm_blocks * size].reshape(blocks, ifm_blocks, size)
            at += ifm_blocks * size
            begin = 0
            for y, x, height, width in self.subkernels():
                used, padded = height * width, _up(height * width, self.element_step)
                end = begin + depth_up * ifm_depth * padded
                source = self._straighten(one[:, :, begin:end], depth_up, ifm_depth, padded)
                begin = end
                # source: blocks, ifm_blocks, ofm, element, ifm
                target = weights[:, y : y + height, x : x + width, z : z + ifm_blocks * ifm_depth]
                target[...] = (
                    source[:, :, :depth, :used]
                    .reshape(blocks, ifm_blocks, depth, height, width, ifm_depth)
                    .transpose(0, 2, 3, 4, 1, 5)
                    .reshape(target.shape)
                )

    def _straighten(self, source: Array, ofm: int, ifm: int, elements: int) -> Array:
        """(blocks, ifm blocks, stream) to (blocks, ifm blocks, ofm, element, ifm)."""
        blocks, ifm_blocks = source.shape[:2]
        ifm_ublock = 1 if self.depthwise else self.ifm_ublock
        ifm_ublocks, ofm_ublocks = ifm // ifm_ublock, ofm // self.ofm_ublock
        if self.part_kernel:
            order = (ifm_ublocks, ofm_ublocks, elements, self.ofm_ublock, ifm_ublock)
            axes = (0, 1, 3, 5, 4, 2, 6)
        else:
            order = (ofm_ublocks, elements, ifm_ublocks, self.ofm_ublock, ifm_ublock)
            axes = (0, 1, 2, 5, 3, 4, 6)
        return (
            source.reshape(blocks, ifm_blocks, *order).transpose(axes).reshape(blocks, ifm_blocks, ofm, elements, ifm)
        )


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _groups(total: int, block: int) -> list[tuple[int, int, int]]:
    whole, rest = divmod(total, block)
    groups = [(0, whole, block)] if whole else []
    return [*groups, (whole * block, 1, rest)] if rest else groups


class WeightError(Exception):
    """A weight stream does not decode to what the registers describe."""


class _Cache:
    """Decoded weights by content; the least recently used go first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.entries: OrderedDict[tuple[bytes, WeightOrder], Array] = OrderedDict()
        self._lock = Lock()

    def clear(self) -> None:
        with self._lock:
            self.entries.clear()
            self.used = 0

    def get(self, key: tuple[bytes, WeightOrder]) -> Array | None:
        with self._lock:
            found = self.entries.get(key)
            if found is not None:
                self.entries.move_to_end(key)
            return found

    def put(self, key: tuple[bytes, WeightOrder], weights: Array) -> None:
        with self._lock:
            if key in self.entries:
                return
            self.entries[key] = weights
            self.used += weights.nbytes + len(key[0])
            while self.used > self.limit and len(self.entries) > 1:
                (old, _), gone = self.entries.popitem(last=False)
                self.used -= gone.nbytes + len(old)


_cache = _Cache(CACHE_BYTES)


def forget() -> None:
    """Drops all decoded weights."""
    _cache.clear()


def decode(compressed: bytes, order: WeightOrder) -> Array:
    """The weight tensor (ofm_depth, height, width, ifm_depth), read-only, from its compressed stream; cached.

    Type int8 where all values fit, else int16 (weights have 9 bits). Raises WeightError.
    """
    weights = _cache.get((compressed, order))
    if weights is None:
        (stream,) = codec.decode([compressed])
        weights = _restore(compressed, order, stream)
    return weights


def prefetch(wanted: Iterable[tuple[bytes, WeightOrder]]) -> None:
    """Decodes all streams at once that `decode` will be asked for; errors are left for then."""
    missing = [key for key in dict.fromkeys(wanted) if _cache.get(key) is None]
    for key, stream in zip(missing, codec.decode([compressed for compressed, _ in missing]), strict=True):
        with contextlib.suppress(WeightError):
            _restore(*key, stream)


def _restore(compressed: bytes, order: WeightOrder, stream: Array | codec.CorruptStream) -> Array:
    expected = order.length
    if isinstance(stream, codec.CorruptStream):
        raise WeightError(str(stream))
    if stream.size != expected:
        raise WeightError(f"it decodes to {stream.size} weights where the registers describe {expected}")
    if stream.size and stream.min() >= -128 and stream.max() <= 127:
        stream = stream.astype(np.int8)
    weights = order.restore(stream)
    weights.flags.writeable = False
    _cache.put((compressed, order), weights)
    return weights


def decode_scales(buffer: npt.NDArray[np.uint8], channels: int) -> tuple[Array, Array, Array]:
    """Bias, multiplier and shift (int64 each, one per channel) of a scale buffer of SCALE_BYTES per channel."""
    rows = buffer[: channels * SCALE_BYTES].reshape(channels, SCALE_BYTES)
    bias = np.zeros((channels, 8), np.uint8)
    bias[:, 3:] = rows[:, :5]
    multiplier = np.zeros((channels, 8), np.uint8)
    multiplier[:, :4] = rows[:, 5:9]
    return (
        bias.view("<i8")[:, 0] >> 24,
        multiplier.view("<i8")[:, 0].copy(),
        (rows[:, 9] & 0x3F).astype(np.int64),
    )
