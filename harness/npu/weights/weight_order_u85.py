"""The order in which an Ethos-U85 consumes the weights of a convolution.

Only registers decide it. Its nesting, established for all sizes, is from outer to inner: OFM block; IFM block (last to
first in every other OFM block); sub-kernel (8 / dilation steps in x, then y); IFM micro-block; OFM micro-block; kernel
element; IFM step of 8 channels (16 if sparse); group of 4 OFM channels, dealt out to the weight decoders in turn; OFM
channel; IFM channel. Positions outside of the tensor are zero.

Kernel elements: [part-kernel and depthwise: phase of the stride in y, then x,] rows, every other one from right to
left. Their number is rounded up. A depthwise stream has further zeros after every ten elements.

With FWD coding there is one stream, in which the decoders take turns after each rounding unit of elements. Source of
nesting and rounding: Vela's public sources (ethos_u85_weight_encoder.cpp), checked with what Vela compiles.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.npu.isa.weight_order import WeightOrder, pieces, round_up
from ethos_hil.harness.npu.weights.weight_order_u55 import WORD, as_words

Array = npt.NDArray[Any]

GROUP = 4  # OFM channels a weight decoder serves at a time
DEPTHWISE_STEP = 10  # elements after which a depthwise stream is padded


@dataclass(frozen=True)
class SubKernel:
    """A part of the kernel whose elements follow one another in a stream.

    Attributes:
        elements: their positions, y * width + x in the whole kernel, in stream order.
        slots: their slots in the part: 0, 1, ... except for the gaps in a depthwise stream.
        padded: number of slots, padding included.
    """

    elements: tuple[int, ...]
    slots: tuple[int, ...]
    padded: int


@dataclass(frozen=True, kw_only=True)
class WeightOrderU85(WeightOrder):
    """Shape, coding and order of the weight streams of an operation; `ofm_ublock` is a multiple of GROUP * decoders.

    Attributes:
        sparse: of four weights along the IFM channels two are zero (WEIGHT_FORMAT, 2:4 sparsity).
        stride_y, stride_x: of the kernel.
        macs: of the configuration, in 8-bit multiply-accumulates per cycle.
        decoders: weight decoders of the configuration; without FWD coding each has a stream.
    """

    sparse: bool
    stride_y: int
    stride_x: int
    macs: int
    decoders: int

    @property
    def ifm_block(self) -> int:
        """IFM channels in a block."""
        if self.depthwise:
            return 1
        if self.part_kernel:
            return 16
        if self.sparse:
            return 128 if self.ifm_bits == 8 else 64
        return 32 if self.macs <= 256 and self.ofm_ublock == 16 else 64

    @property
    def ifm_ublock(self) -> int:
        """IFM channels worked on before the next OFM micro-block."""
        return 8 if self.part_kernel and self.ifm_bits == 16 and not self.sparse else self.ifm_block

    @property
    def element_step(self) -> int:
        """The multiple to which the number of elements in a sub-kernel is rounded up."""
        if self.depthwise:
            return DEPTHWISE_STEP
        if self.part_kernel:
            return 10 if self.ifm_bits == 16 or self.sparse else 5
        return 1

    @property
    def depthwise_gap(self) -> int:
        """Slots without weights after every DEPTHWISE_STEP elements of a depthwise stream."""
        if not self.depthwise or (self.ifm_bits != 16 and self.macs <= 256):
            return 0
        return 2 if self.macs <= 512 else 6

    @property
    def subkernels(self) -> tuple[SubKernel, ...]:
        """The parts of the kernel, in stream order."""
        phased = self.part_kernel or self.depthwise
        stride = (self.stride_y, self.stride_x) if phased else (1, 1)
        return _subkernels((self.height, self.width), stride, self.reach, self.element_step, self.depthwise_gap)

    @property
    def slots(self) -> int:
        """Kernel elements including padding, over all sub-kernels."""
        return self.padded_elements // self.element_step * (self.element_step + self.depthwise_gap)

    @property
    def unit(self) -> int:
        """Weights per slot in one decoder's stream: one OFM and one IFM micro-block."""
        return self.ofm_ublock * self.ifm_ublock // self.decoders

    @property
    def ifm_groups(self) -> list[tuple[int, int, int]]:
        """First channel, number and micro-blocks of equal IFM blocks: all whole ones, then a smaller one."""
        padded = round_up(self.ifm_depth, self.ifm_ublock)
        return [(z, count, depth // self.ifm_ublock) for z, count, depth in pieces(padded, self.ifm_block)]

    @property
    def ifm_ublocks(self) -> int:
        """IFM micro-blocks in all IFM blocks."""
        return -(-self.ifm_depth // self.ifm_ublock)

    def count(self) -> tuple[int, ...]:
        """Return the weights in each stream, padding included."""
        ofm_ublocks = sum(n * -(-depth // self.ofm_ublock) for _, n, depth in pieces(self.ofm_depth, self.ofm_block))
        length = ofm_ublocks * self.ifm_ublocks * self.slots * self.unit
        return (length * self.decoders,) if self.fast else (length,) * self.decoders

    def restore(self, streams: Sequence[Array]) -> Array:
        """Return the weight tensor, shape (ofm_depth, height, width, ifm_depth), from streams of `lengths` values."""
        word = 1 if self.depthwise else WORD
        moved = [as_words(stream, word) for stream in self._streams_by_decoder(streams)]
        groups, at = [], 0
        per_ublock = self.ifm_ublocks * self.slots * self.unit // word
        for z, blocks, depth in pieces(self.ofm_depth, self.ofm_block):
            ublocks = -(-depth // self.ofm_ublock)
            end = at + blocks * ublocks * per_ublock
            parts = [stream[at:end].reshape(blocks, ublocks * per_ublock) for stream in moved]
            groups.append(self._restore_blocks(parts, z // self.ofm_block, depth, word))
            at = end
        tensor = groups[0] if len(groups) == 1 else np.concatenate(groups)
        elements = [element for part in self.subkernels for element in part.elements]
        if elements != sorted(elements):
            tensor = tensor[:, np.argsort(elements)]
        tensor = np.ascontiguousarray(tensor).view(streams[0].dtype)[:, :, : self.ifm_depth]
        return tensor.reshape(self.ofm_depth, self.height, self.width, self.ifm_depth)

    def _streams_by_decoder(self, streams: Sequence[Array]) -> Sequence[Array]:
        if not self.fast or self.decoders == 1:
            return streams
        dealt = streams[0].reshape(-1, self.decoders, self.unit * self.element_step)
        return [dealt[:, decoder].reshape(-1) for decoder in range(self.decoders)]

    def _restore_blocks(self, streams: Sequence[Array], first: int, depth: int, word: int) -> Array:
        """Return equal OFM blocks: (channels, elements in stream order, words of IFM channels).

        `streams` (blocks, words) start with block number `first`; every odd block has its IFM blocks last to first.
        """
        blocks = streams[0].shape[0]
        ublocks = -(-depth // self.ofm_ublock)
        groups = self.ofm_ublock // (GROUP * self.decoders)
        elements = self.height * self.width
        ifm_words = self.ifm_ublocks * self.ifm_ublock // word
        tensor = np.empty((blocks, ublocks, groups, self.decoders, GROUP, elements, ifm_words), streams[0].dtype)
        parities: tuple[tuple[slice, bool], ...] = ((slice(None), False),)
        if self.ifm_depth > self.ifm_block:
            parities = ((slice(first % 2, None, 2), False), (slice(1 - first % 2, None, 2), True))
        for decoder, stream in enumerate(streams):
            for every, backwards in parities:
                self._restore_stream(stream[every], tensor[every, :, :, decoder], backwards, word)
        channels = tensor.reshape(blocks, ublocks * self.ofm_ublock, elements, ifm_words)
        return channels[:, :depth].reshape(blocks * depth, elements, ifm_words)

    def _restore_stream(self, stream: Array, tensor: Array, backwards: bool, word: int) -> None:
        """Fill `tensor` (blocks, OFM ublocks, groups, GROUP, elements, words) from `stream` (blocks, words)."""
        blocks, ublocks, groups = tensor.shape[:3]
        step = 1 if self.depthwise or not self.sparse else 16 // word
        at = 0
        for z, count, ifm_ublocks in self.ifm_groups[:: -1 if backwards else 1]:
            deep = self.ifm_ublock // word
            per_slot = ifm_ublocks * ublocks * self.unit // word
            size = per_slot * self.slots
            run = stream[:, at : at + count * size].reshape(blocks, count, size)
            if backwards:
                run = run[:, ::-1]
            at += count * size
            begin = element = 0
            for part in self.subkernels:
                end = begin + per_slot * part.padded
                source = run[:, :, begin:end].reshape(
                    blocks, count, ifm_ublocks, ublocks, part.padded, deep // step, groups, GROUP, step
                )
                used = len(part.elements)
                source = source[:, :, :, :, list(part.slots)] if self.depthwise_gap else source[:, :, :, :, :used]
                straight = source.transpose(0, 3, 6, 7, 4, 1, 2, 5, 8)
                target = tensor[..., element : element + used, z // word : z // word + count * ifm_ublocks * deep]
                target[...] = straight.reshape(target.shape)
                begin, element = end, element + used


@functools.cache
def _subkernels(
    kernel: tuple[int, int], stride: tuple[int, int], reach: tuple[int, int], step: int, gap: int
) -> tuple[SubKernel, ...]:
    """Return the parts of a kernel; all pairs are y, x."""
    height, width = kernel
    parts = []
    for x in range(0, width, reach[1]):
        for y in range(0, height, reach[0]):
            rows, columns = range(y, min(y + reach[0], height)), range(x, min(x + reach[1], width))
            elements = [
                row * width + column
                for phase_y in range(stride[0])
                for phase_x in range(stride[1])
                for index, row in enumerate(rows[phase_y :: stride[0]])
                for column in columns[phase_x :: stride[1]][:: -1 if index % 2 else 1]
            ]
            slots = tuple(i // step * (step + gap) + i % step for i in range(len(elements)))
            parts.append(SubKernel(tuple(elements), slots, -(-len(elements) // step) * (step + gap)))
    return tuple(parts)


def forget() -> None:
    """Drop what is remembered of kernels."""
    _subkernels.cache_clear()
