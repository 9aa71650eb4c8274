"""The order in which an Ethos-U55 or U65 consumes the weights of a convolution.

Only registers decide it. Its nesting, established for all sizes, is from outer to inner: OFM block, IFM block,
sub-kernel (8 / dilation steps in y, then x), [part-kernel: IFM micro-block], OFM micro-block, kernel element (count
rounded up), [depth-first: IFM micro-block], OFM channel, IFM channel. Positions outside of the tensor are zero.

With two cores (ethos-u65-512) each has its own stream: core k owns OFM channels k, k + 2, ..., in blocks of its share
of the OFM block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.npu.isa.weight_order import WeightOrder, pieces, round_up

Array = npt.NDArray[Any]

WORD = 8  # weights along the IFM channels that always stay together (a micro-block)


@dataclass(frozen=True, kw_only=True)
class WeightOrderU55(WeightOrder):
    """Shape and order of the weight streams of an operation.

    Attributes:
        ifm_ublock: IFM channels in a micro-block.
        cores: number of cores that share the OFM channels, each with its own stream.
    """

    ifm_ublock: int
    cores: int = 1

    @property
    def ifm_block(self) -> int:
        """IFM channels in a block."""
        return 16 if self.part_kernel or self.ifm_bits == 16 else 32

    @property
    def element_step(self) -> int:
        """The multiple to which the number of elements in a sub-kernel is rounded up."""
        if self.depthwise:
            return 4
        if self.part_kernel:
            return 2 if self.ifm_bits == 16 else 4
        return 1

    def subkernels(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield y, x, height, width of each sub-kernel, in stream order."""
        step_y, step_x = self.reach
        for y in range(0, self.height, step_y):
            for x in range(0, self.width, step_x):
                yield y, x, min(step_y, self.height - y), min(step_x, self.width - x)

    def ofm_groups(self, core: int) -> list[tuple[int, int, int]]:
        """Return first channel, number and depth of a core's equal OFM blocks: all whole ones, then the rest.

        Only the channels that the core owns are counted.
        """
        owned = (self.ofm_depth + self.cores - 1 - core) // self.cores
        return pieces(owned, (self.ofm_block + self.cores - 1 - core) // self.cores)

    def ifm_groups(self) -> list[tuple[int, int, int]]:
        """Return first channel, number and depth in channels (whole micro-blocks) of equal IFM blocks."""
        if self.depthwise:
            return [(0, 1, 1)]
        if not self.part_kernel:
            return [(0, -(-self.ifm_depth // self.ifm_block), self.ifm_block)]
        return [(z, n, round_up(depth, self.ifm_ublock)) for z, n, depth in pieces(self.ifm_depth, self.ifm_block)]

    def count(self) -> tuple[int, ...]:
        """Return the weights in each core's stream, padding included."""
        ifm = sum(n * depth for _, n, depth in self.ifm_groups()) * self.padded_elements
        return tuple(
            ifm * sum(n * round_up(depth, self.ofm_ublock) for _, n, depth in self.ofm_groups(core))
            for core in range(self.cores)
        )

    def restore(self, streams: Sequence[Array]) -> Array:
        """Return the weight tensor, shape (ofm_depth, height, width, ifm_depth), from streams of `lengths` values."""
        if self.cores == 1:
            return self._restore(streams[0], 0)
        weights = np.empty((self.ofm_depth, self.height, self.width, self.ifm_depth), streams[0].dtype)
        for core, stream in enumerate(streams):
            if stream.size:
                weights[core :: self.cores] = self._restore(stream, core)
        return weights

    def _restore(self, stream: Array, core: int) -> Array:
        """Return the part of the weight tensor that a core owns."""
        word = 1 if self.depthwise else WORD
        moved = as_words(stream, word)
        groups = self.ofm_groups(core)
        ifm_total = sum(n * depth for _, n, depth in self.ifm_groups()) // word
        weights = np.empty((sum(n * depth for _, n, depth in groups), self.height, self.width, ifm_total), moved.dtype)
        at = 0
        elements = self.padded_elements
        for z, blocks, depth in groups:
            depth_up = round_up(depth, self.ofm_ublock)
            count = blocks * depth_up * ifm_total * elements
            part = moved[at : at + count].reshape(blocks, depth_up * ifm_total * elements)
            self._restore_blocks(part, weights[z : z + blocks * depth], depth, word)
            at += count
        return weights.view(stream.dtype)[:, :, :, : self.ifm_depth]

    def _restore_blocks(self, part: Array, weights: Array, depth: int, word: int) -> None:
        """Fill `weights` (blocks * depth, height, width, ifm) from `part` (blocks, stream of one block), in words."""
        blocks = part.shape[0]
        ofm_ublocks = -(-depth // self.ofm_ublock)
        at = 0
        for z, ifm_blocks, ifm_depth in self.ifm_groups():
            ifm_ublocks = ifm_depth // word
            per_element = ofm_ublocks * self.ofm_ublock * ifm_ublocks
            size = per_element * self.padded_elements
            chunk = part[:, at : at + ifm_blocks * size].reshape(blocks, ifm_blocks, size)
            at += ifm_blocks * size
            begin = 0
            for y, x, height, width in self.subkernels():
                padded = round_up(height * width, self.element_step)
                end = begin + per_element * padded
                if self.part_kernel:
                    order, axes = (ifm_ublocks, ofm_ublocks, padded, self.ofm_ublock), (0, 3, 5, 4, 1, 2)
                else:
                    order, axes = (ofm_ublocks, padded, ifm_ublocks, self.ofm_ublock), (0, 2, 5, 3, 1, 4)
                source = chunk[:, :, begin:end].reshape(blocks, ifm_blocks, *order).transpose(axes)
                begin = end
                # blocks, OFM micro-blocks, OFM channels, elements, IFM blocks, IFM micro-blocks
                straight = source[:, :, :, : height * width].reshape(
                    blocks, -1, height, width, ifm_blocks * ifm_ublocks
                )
                target = weights[:, y : y + height, x : x + width, z // word : z // word + ifm_blocks * ifm_ublocks]
                target[...] = straight[:, :depth].reshape(target.shape)


def as_words(stream: Array, count: int) -> Array:
    """Return a stream with items of `count` (1 or WORD) weights; moving these is much faster than moving single
    weights.
    """
    return stream if count == 1 else stream.view(np.int64 if stream.itemsize == 1 else np.complex128)
