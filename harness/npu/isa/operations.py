"""The NPU's operations, with every register resolved.

The decoder makes them; execution, timing and checks read them. All are immutable. Sizes are in elements and addresses
in bytes unless the name says otherwise; an address is an offset into a region.
"""

from __future__ import annotations

from enum import Enum, IntEnum

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.npu.isa.feature_map import FeatureMap
from ethos_hil.harness.npu.isa.registers import ElementwiseMode, PoolMode
from ethos_hil.harness.npu.isa.scaling import ONE, Scale
from ethos_hil.harness.npu.isa.weight_order import WeightOrder


class ScaleLayout(Enum):
    """The layout of a record in a scale buffer: bytes of the bias, bytes and bits of the multiplier; then the shift."""

    I40 = (5, 4, 32)  # U55, U65
    I32 = (4, 4, 31)  # U85, 32-bit accumulator; the last byte is unused
    I48 = (6, 2, 15)  # U85, 48-bit accumulator; the last byte is unused


INTERNAL = -1  # "region" of addresses inside the NPU: SHRAM, or the look-up table memory of an Ethos-U85


class Upscale(IntEnum):
    """How the IFM is enlarged by two before the kernel reads it."""

    NONE = 0
    NEAREST = 1
    ZEROS = 2


@dataclass(frozen=True)
class Access:
    """Bytes [begin, end) of a region that an operation may read or write, and the register that holds the address."""

    register: str
    region: int
    begin: int
    end: int
    write: bool
    size: int  # bytes moved, at most end - start for a feature map without reuse


@dataclass(frozen=True)
class Kernel:
    """Size, stride, dilation and padding of a convolution or pool, in IFM elements (after upscaling)."""

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


class Curve(IntEnum):
    """An activation function that interpolates a table of tanh (see harness/npu/compute/output.py)."""

    TANH = 0
    SIGMOID = 1


@dataclass(frozen=True)
class Activation:
    """The step between scaling and storing: clamp to [minimum, maximum], then an optional look-up.

    Attributes:
        clamp: false for plain 32-bit outputs, which saturate to int32 instead and get no zero point; false too for
            smaller outputs whose clamp the stream switches off.
        wraps: whether values outside of the OFM's type wrap around; for those smaller outputs.
        table: internal address of a look-up table, or None.
        index_bits: 8, and an index picks an entry (a signed index counts from -128); or 16, and the table has 512
            entries with values interpolated between them.
        signed_index: whether the index is signed.
        curve: tanh or sigmoid, of the value before any clamp, or None. Its table is the one of `table` (16-bit
            indices), or where there is none, one that is built in. `minimum` and `maximum` are for its result then.
    """

    minimum: int
    maximum: int
    clamp: bool = True
    wraps: bool = False
    table: int | None = None
    index_bits: int = 8
    signed_index: bool = True
    curve: Curve | None = None


@dataclass(frozen=True)
class Block:
    """The OFM block that the NPU works on at a time, and its micro-block (height, width, depth)."""

    height: int
    width: int
    depth: int
    ublock: tuple[int, int, int]


@dataclass(frozen=True)
class ByteRange:
    """Bytes [base, base + length) of a region; length 0 where a core or stream is unused."""

    region: int
    base: int
    length: int


@dataclass(frozen=True)
class Weights:
    """Where compressed weights and scales are, one stream per core or weight decoder, and how they are ordered."""

    streams: tuple[ByteRange, ...]
    scales: tuple[ByteRange, ...]
    order: WeightOrder
    layout: ScaleLayout


@dataclass(frozen=True)
class ChannelScales:
    """Where an operation without weights finds each channel's bias, multiplier and shift."""

    streams: tuple[ByteRange, ...]
    layout: ScaleLayout


@dataclass(frozen=True)
class Convolution:
    """CONV or DEPTHWISE. `scale` applies to all channels when `per_channel` is false.

    `start`: the initial values of the sums, None for zero. An OFM that is the chain ACCUMULATORS gets the sums
    unscaled.
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
        """Whether each output channel has one input channel."""
        return self.weights.order.depthwise

    @property
    def products(self) -> int:
        """The products that it sums up, those with padding included."""
        return self.ofm.elements * self.kernel.height * self.kernel.width * (1 if self.depthwise else self.ifm.depth)


@dataclass(frozen=True)
class Pool:
    """POOL. `hardware_divide` asks for the mean over the valid taps before scaling.

    Where there are `channel_scales`, they scale, with the rounding of `scale`; otherwise `scale` does. PoolMode.NONE
    passes values through the accumulators unchanged, or leaves them there. `start` and the OFM are as for Convolution:
    a sum adds to what the accumulators hold, a maximum or minimum chooses.
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
    start: FeatureMap | None = None

    def move_to(self, offset: int, ifm: FeatureMap, ofm: FeatureMap, accesses: tuple[Access, ...]) -> Pool:
        """Return the same pool on other maps of the same shapes. dataclasses.replace would take three times as long."""
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


@dataclass(frozen=True)
class Operand:
    """An input of ELEMENTWISE: a feature map or one number, and the scale to apply after its zero point is subtracted.

    A number has its zero point subtracted already.
    """

    source: FeatureMap | int
    scale: Scale = ONE


@dataclass(frozen=True)
class Elementwise:
    """ELEMENTWISE. `operands` are in operand order (first minus second); unary modes have one.

    Each operand is scaled, they are combined, and `scale` scales the result. LRELU scales its operand by
    `negative_scale` where it is below zero. Shifts to the right round as `scale` does.
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


@dataclass(frozen=True)
class MatMul:
    """CONV with weights from a feature map: OFM (y, x, o) is the sum over c of IFM (y, x, c) * IFM2 (0, o, c).

    `start` and the OFM are as for Convolution.
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

    @property
    def products(self) -> int:
        """The products that it sums up."""
        return self.ofm.elements * self.ifm.depth


class ResizeMode(IntEnum):
    """Parameter of RESIZE."""

    BILINEAR = 0
    REPLICATE = 1
    NEAREST = 2


@dataclass(frozen=True)
class ResizeAxis:
    """The mapping along one axis: OFM position p is IFM position (p * step + offset) / scale."""

    scale: int
    step: int
    offset: int


@dataclass(frozen=True)
class Resize:
    """RESIZE; `y` and `x` map OFM positions to IFM positions."""

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


@dataclass(frozen=True)
class DmaSide:
    """One side of a DMA: sizes[0] * sizes[1] rows, `strides[0]` and `strides[1]` bytes apart."""

    region: int
    base: int
    strides: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class DmaIndex:
    """A list of 32-bit row numbers, 0 to `maximum`, for one side of a DMA; `skip` bytes follow each inner list."""

    region: int
    base: int
    maximum: int
    skip: int
    of_source: bool


@dataclass(frozen=True)
class Dma:
    """A copy between regions, one of which may be INTERNAL: sizes[1] times sizes[0] rows of `length` bytes each.

    With an index, one side takes its row numbers from memory instead of counting up.
    """

    offset: int
    name: str
    source: DmaSide
    destination: DmaSide
    length: int
    accesses: tuple[Access, ...]
    sizes: tuple[int, int] = (1, 1)
    index: DmaIndex | None = None


@dataclass(frozen=True)
class Branch:
    """BRANCH to instruction number `target` of the program, always or only if the flag is set.

    The flag is set when the one element that the last operation stored is not zero.
    """

    offset: int
    name: str
    conditional: bool
    target: int


Op = Convolution | MatMul | Pool | Elementwise | Resize | Dma
Instruction = Op | Branch
