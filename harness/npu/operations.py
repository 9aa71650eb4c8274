"""What the NPU is asked to do: every register resolved, nothing left to look up.

The decoder makes these; executing, timing and checking read them. All are immutable.
Sizes and addresses are in elements and bytes as named; addresses are offsets into a region.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from harness.npu.featuremap import FeatureMap
from harness.npu.registers import ElementwiseMode, PoolMode
from harness.npu.scaling import Rounding, Scale
from harness.npu.weights import Order, ScaleLayout

INTERNAL = -1  # "region" of addresses inside the NPU (SHRAM)


class Upscale(IntEnum):
    """How the IFM is enlarged by two before the kernel sees it."""

    NONE = 0
    NEAREST = 1
    ZEROS = 2


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes [begin, end) of a region that an operation may read or write, and the register that says where."""

    register: str
    region: int
    begin: int
    end: int
    write: bool
    size: int  # bytes moved, at most end - begin for a feature map without reuse


@dataclass(frozen=True, slots=True)
class Kernel:
    """Taps, steps and padding of a convolution or pool, in IFM elements (after upscaling)."""

    height: int
    width: int
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1
    dilation_x: int = 1
    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return bool(self.top or self.left or self.bottom or self.right)

    @property
    def is_point(self) -> bool:
        """Whether OFM (y, x) depends on IFM (y, x) alone."""
        return self.height == self.width == self.stride_y == self.stride_x == 1 and not self.padded


@dataclass(frozen=True, slots=True)
class Activation:
    """What happens between scaling and storing: clamp to [minimum, maximum], then an optional look-up.

    `table` is the SHRAM address of a look-up table, or None. `clamp` is false for plain 32-bit outputs, which
    saturate to int32 instead and get no zero point. A signed 8-bit index counts
    the table's entries from -128.
    """

    minimum: int
    maximum: int
    clamp: bool = True
    table: int | None = None
    signed_index: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """The OFM block the NPU works on at a time: height, width, depth."""

    height: int
    width: int
    depth: int


@dataclass(frozen=True, slots=True)
class Stream:
    """Bytes [base, base + length) of a region; length 0 where a core or stream is unused."""

    region: int
    base: int
    length: int


@dataclass(frozen=True, slots=True)
class Weights:
    """Where compressed weights and scales are, one stream per core or weight decoder, and in which order they come."""

    streams: tuple[Stream, ...]
    scales: tuple[Stream, ...]
    order: Order
    layout: ScaleLayout


@dataclass(frozen=True, slots=True)
class Convolution:
    """CONV or DEPTHWISE. `scale` applies to all channels when `per_channel` is false."""

    offset: int
    name: str
    ifm: FeatureMap
    ofm: FeatureMap
    kernel: Kernel
    upscale: Upscale
    weights: Weights
    per_channel: bool
    scale: Scale
    activation: Activation
    block: Block
    accumulator_bits: int
    accesses: tuple[Access, ...]

    @property
    def depthwise(self) -> bool:
        """Whether channels are kept apart."""
        return self.weights.order.depthwise


@dataclass(frozen=True, slots=True)
class Pool:
    """POOL. `hardware_divide` asks for the mean over the valid taps instead of `scale`."""

    offset: int
    name: str
    mode: PoolMode
    ifm: FeatureMap
    ofm: FeatureMap
    kernel: Kernel
    upscale: Upscale
    hardware_divide: bool
    scale: Scale
    activation: Activation
    block: Block
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class OperandScale:
    """How ADD and SUB scale their inputs: each by a factor, or one by `scaled` and the other by a left shift."""

    factors: tuple[int, int] = (1, 1)
    scaled: int | None = None  # 0 or 1: the operand, in operand order, that `scale` applies to
    scale: Scale | None = None
    other_shift: int = 0


@dataclass(frozen=True, slots=True)
class Elementwise:
    """ELEMENTWISE. `ifm2` is None for unary modes and for a scalar (then `scalar` has it, zero point removed).

    `reversed_operands`: IFM2 is the first operand. `scale` is None where no scaling happens.
    """

    offset: int
    name: str
    mode: ElementwiseMode
    ifm: FeatureMap
    ifm2: FeatureMap | None
    scalar: int | None
    reversed_operands: bool
    ofm: FeatureMap
    operand_scale: OperandScale
    scale: Scale | None
    rounding: Rounding
    activation: Activation
    block: Block
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class Dma:
    """DMA of `length` bytes between regions; region INTERNAL is SHRAM."""

    offset: int
    name: str
    source_region: int
    source: int
    destination_region: int
    destination: int
    length: int
    accesses: tuple[Access, ...]


Op = Convolution | Pool | Elementwise | Dma
