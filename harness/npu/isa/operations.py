"""What the NPU is asked to do: every register resolved, nothing left to look up.

The decoder makes these; executing, timing and checking read them. All are immutable.
Sizes and addresses are in elements and bytes as named; addresses are offsets into a region.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ethos_hil.harness.npu.isa.feature_map import FeatureMap
from ethos_hil.harness.npu.isa.registers import ElementwiseMode, PoolMode
from ethos_hil.harness.npu.isa.scaling import ONE, Scale
from ethos_hil.harness.npu.isa.weight_layout import ScaleLayout, WeightOrder

INTERNAL = -1  # "region" of addresses inside the NPU: SHRAM, or the look-up table memory of an Ethos-U85


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

    `table` is the internal address of a look-up table, or None. `clamp` is false for plain 32-bit outputs, which
    saturate to int32 instead and get no zero point; and where a clamp is switched off for smaller ones, which then wrap
    around (`wraps`). An index of 8 bits picks an entry (a signed one counts them from
    -128); one of 16 bits has 512 entries interpolated.
    """

    minimum: int
    maximum: int
    clamp: bool = True
    wraps: bool = False
    table: int | None = None
    index_bits: int = 8
    signed_index: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """The OFM block the NPU works on at a time, and the micro-blocks (height, width, depth) it consists of."""

    height: int
    width: int
    depth: int
    ublock: tuple[int, int, int]


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
    order: WeightOrder
    layout: ScaleLayout


@dataclass(frozen=True, slots=True)
class ChannelScales:
    """Where an operation without weights finds a bias, multiplier and shift for each channel."""

    streams: tuple[Stream, ...]
    layout: ScaleLayout


@dataclass(frozen=True, slots=True)
class Convolution:
    """CONV or DEPTHWISE. `scale` applies to all channels when `per_channel` is false.

    `start`: what sums start with, if not with zero. An OFM that is the chain ACCUMULATORS gets the bare sums.
    """

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
    start: FeatureMap | None = None

    @property
    def depthwise(self) -> bool:
        """Whether channels are kept apart."""
        return self.weights.order.depthwise


@dataclass(frozen=True, slots=True)
class Pool:
    """POOL. `hardware_divide` asks for the mean over the valid taps before scaling.

    Scaling is by `channel_scales` and the rounding of `scale` where there are any, else by `scale`. With PoolMode.NONE
    values only pass the accumulators.
    """

    offset: int
    name: str
    mode: PoolMode
    ifm: FeatureMap
    ofm: FeatureMap
    kernel: Kernel
    upscale: Upscale
    hardware_divide: bool
    channel_scales: ChannelScales | None
    scale: Scale
    activation: Activation
    block: Block
    accesses: tuple[Access, ...]

    def moved(self, offset: int, ifm: FeatureMap, ofm: FeatureMap, accesses: tuple[Access, ...]) -> Pool:
        """The same with other maps of the same shapes; dataclasses.replace takes three times as long."""
        return Pool(
            offset,
            self.name,
            self.mode,
            ifm,
            ofm,
            self.kernel,
            self.upscale,
            self.hardware_divide,
            self.channel_scales,
            self.scale,
            self.activation,
            self.block,
            accesses,
        )


@dataclass(frozen=True, slots=True)
class Operand:
    """An input of ELEMENTWISE: a feature map or one number, and what it is scaled by once its zero point is removed.

    A number has its zero point removed already.
    """

    source: FeatureMap | int
    scale: Scale = ONE


@dataclass(frozen=True, slots=True)
class Elementwise:
    """ELEMENTWISE. `operands` are in operand order (first minus second), one for unary modes.

    Operands are scaled, combined, then scaled by `scale`. LRELU scales its one operand by `negative_scale` instead
    where it is below zero. Shifts to the right round as `scale` does.
    """

    offset: int
    name: str
    mode: ElementwiseMode
    operands: tuple[Operand, ...]
    ofm: FeatureMap
    scale: Scale
    negative_scale: Scale
    activation: Activation
    block: Block
    accesses: tuple[Access, ...]

    @property
    def ifms(self) -> tuple[FeatureMap, ...]:
        """The operands that are feature maps."""
        return tuple(operand.source for operand in self.operands if isinstance(operand.source, FeatureMap))


@dataclass(frozen=True, slots=True)
class MatMul:
    """CONV with weights from a feature map: OFM (y, x, o) is the sum over c of IFM (y, x, c) * IFM2 (0, o, c).

    `start` and the OFM: as for Convolution.
    """

    offset: int
    name: str
    ifm: FeatureMap
    ifm2: FeatureMap
    ofm: FeatureMap
    scale: Scale
    activation: Activation
    block: Block
    accumulator_bits: int
    accesses: tuple[Access, ...]
    start: FeatureMap | None = None


class ResizeMode(IntEnum):
    """Parameter of RESIZE."""

    BILINEAR = 0
    REPLICATE = 1
    NEAREST = 2


@dataclass(frozen=True, slots=True)
class ResizeAxis:
    """OFM position p is IFM position (p * step + offset) / scale, in one direction."""

    scale: int
    step: int
    offset: int


@dataclass(frozen=True, slots=True)
class Resize:
    """RESIZE; `y` and `x` say where an OFM position is in the IFM."""

    offset: int
    name: str
    mode: ResizeMode
    ifm: FeatureMap
    ofm: FeatureMap
    y: ResizeAxis
    x: ResizeAxis
    scale: Scale
    activation: Activation
    block: Block
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """One side of a DMA: sizes[0] * sizes[1] rows, `strides[0]` and `strides[1]` bytes apart."""

    region: int
    base: int
    strides: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Index:
    """A list of 32-bit row numbers, 0 to `maximum`, for one side of a DMA; `skip` bytes after each inner list."""

    region: int
    base: int
    maximum: int
    skip: int
    of_source: bool


@dataclass(frozen=True, slots=True)
class Dma:
    """DMA between regions, one of which may be INTERNAL: sizes[1] times sizes[0] rows of `length` bytes each.

    With an index, the row numbers of one side come from memory instead of counting up.
    """

    offset: int
    name: str
    source: Rows
    destination: Rows
    length: int
    accesses: tuple[Access, ...]
    sizes: tuple[int, int] = (1, 1)
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """BRANCH to instruction number `target` of the program, always or only if the flag is set.

    The flag is whether the one element that the last operation stored differs from zero.
    """

    offset: int
    name: str
    conditional: bool
    target: int


Op = Convolution | MatMul | Pool | Elementwise | Resize | Dma
Instruction = Op | Branch
