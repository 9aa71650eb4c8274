"""What the weight orders of all NPUs have in common; `ethos_hil.harness.npu.weights` has those of each family."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass

Array = npt.NDArray[Any]

SUBKERNEL = 8  # steps a sub-kernel spans, before dilation
ORDERS_KEPT = 1024  # whose lengths are remembered


@dataclass(frozen=True, kw_only=True)
class WeightOrder(ABC):
    """Shape, coding and order of the weight streams of an operation; immutable and hashable.

    The registers alone decide it. It is what the decoder, the decompressor and the timing model need to know.

    Attributes:
        depthwise: whether there is one IFM channel per OFM channel.
        part_kernel: whether kernel elements come before IFM channels ("part-kernel-first"), otherwise depth first.
        fast: whether the streams use FWD coding, otherwise MLW.
        ofm_depth, ifm_depth, height, width: the weight tensor; ifm_depth is 1 if depthwise.
        dilation_y, dilation_x: of the kernel; a sub-kernel spans SUBKERNEL // dilation elements.
        ofm_block: OFM channels in a block (register OFM_BLK_DEPTH_M1 + 1).
        ofm_ublock: OFM channels in a micro-block.
        ifm_bits: bits of an IFM element.
    """

    depthwise: bool
    part_kernel: bool
    fast: bool = False
    ofm_depth: int
    ifm_depth: int
    height: int
    width: int
    dilation_y: int
    dilation_x: int
    ofm_block: int
    ofm_ublock: int
    ifm_bits: int

    @property
    @abstractmethod
    def ifm_block(self) -> int:
        """IFM channels that the NPU sums over before it continues with the next ones."""

    @property
    @abstractmethod
    def element_step(self) -> int:
        """The multiple to which the number of elements in a sub-kernel is rounded up."""

    @property
    def reach(self) -> tuple[int, int]:
        """Elements in a column and in a row of a sub-kernel."""
        return max(1, SUBKERNEL // self.dilation_y), max(1, SUBKERNEL // self.dilation_x)

    @property
    def padded_elements(self) -> int:
        """Kernel elements including those that round up sub-kernels."""
        rows, columns = pieces(self.height, self.reach[0]), pieces(self.width, self.reach[1])
        return sum(m * n * round_up(h * w, self.element_step) for _, m, h in rows for _, n, w in columns)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Weights in each stream, padding included."""
        return _lengths(self)

    @abstractmethod
    def count(self) -> tuple[int, ...]:
        """Return `lengths`, which remembers them: decoding, estimating and decompressing ask for them."""

    @abstractmethod
    def restore(self, streams: Sequence[Array]) -> Array:
        """Return the weight tensor (ofm_depth, height, width, ifm_depth) from streams of `lengths` values each."""


@functools.lru_cache(ORDERS_KEPT)
def _lengths(order: WeightOrder) -> tuple[int, ...]:
    return order.count()


def forget() -> None:
    """Drop what is remembered of orders."""
    _lengths.cache_clear()


def round_up(value: int, step: int) -> int:
    """Return the next multiple of `step`."""
    return -(-value // step) * step


def pieces(total: int, size: int) -> list[tuple[int, int, int]]:
    """Return first, number and size of the equal pieces of `total`: all whole ones, then the rest."""
    whole, rest = divmod(total, size) if total else (0, 0)
    pieces = [(0, whole, size)] if whole else []
    return [*pieces, (whole * size, 1, rest)] if rest else pieces
