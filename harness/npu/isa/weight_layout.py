"""How weights and scales are laid out in the streams of an operation.

The registers alone decide it. `WeightOrder` is what the decoder, the decompressor and the timing model need to know;
`ethos_hil.harness.npu.weights` has an implementation for Ethos-U55 and U65 and one for Ethos-U85.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

import numpy.typing as npt

Array = npt.NDArray[Any]


class WeightOrder(Protocol):
    """Shape, coding and order of the weight streams of an operation; immutable and hashable."""

    @property
    def depthwise(self) -> bool:
        """Whether there is one IFM channel per OFM channel; ifm_depth is then 1."""

    @property
    def part_kernel(self) -> bool:
        """Whether kernel elements come before IFM channels ("part-kernel-first"), otherwise depth first."""

    @property
    def ofm_depth(self) -> int:
        """OFM channels."""

    @property
    def ifm_depth(self) -> int:
        """IFM channels per OFM channel."""

    @property
    def height(self) -> int:
        """Kernel elements in y."""

    @property
    def width(self) -> int:
        """Kernel elements in x."""

    @property
    def ifm_block(self) -> int:
        """IFM channels that the NPU sums over before it continues with the next ones."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Weights in each stream, padding included."""

    @property
    def fast(self) -> bool:
        """Whether the streams use FWD coding, otherwise MLW."""

    def restore(self, streams: Sequence[Array]) -> Array:
        """Return the weight tensor (ofm_depth, height, width, ifm_depth) from streams of `lengths` values each."""


class ScaleLayout(Enum):
    """The layout of a record in a scale buffer: bytes of the bias, bytes and bits of the multiplier; then the shift."""

    I40 = (5, 4, 32)  # U55, U65
    I32 = (4, 4, 31)  # U85, 32-bit accumulator; the last byte is unused
    I48 = (6, 2, 15)  # U85, 48-bit accumulator; the last byte is unused
