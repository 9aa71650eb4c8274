"""Register fields, and groups of them, as values: feature maps, kernels, DMA, places of weights.

This module has what the Ethos-U generations share; the module of each dialect derives from Fields and adds the rest. A
value without a known meaning, or a combination whose arithmetic is not established, raises Fault.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.compute.windows import input_size
from ethos_hil.harness.npu.isa.feature_map import ACCUMULATORS, DTYPES, STRAIGHT, FeatureMap, Layout, chain
from ethos_hil.harness.npu.isa.operations import (
    INTERNAL,
    Access,
    Activation,
    Block,
    ByteRange,
    ChannelScales,
    Curve,
    Dma,
    Kernel,
    Upscale,
    Weights,
)
from ethos_hil.harness.npu.isa.registers import Dialect, ElementwiseMode, PoolMode
from ethos_hil.harness.npu.isa.scaling import Scale
from ethos_hil.harness.npu.isa.stream import Fault, RegisterFile
from ethos_hil.harness.npu.isa.weight_order import WeightOrder


@dataclass(frozen=True)
class Precision:
    """The contents of a feature map's precision register: element type, format, and changes on the way to memory.

    `absent`: the input is a number instead, or the output is not stored.
    """

    layout: Layout
    bits: int
    signed: bool
    axes: tuple[int, int, int] = STRAIGHT
    reverse: int | None = None
    absent: bool = False


@dataclass(frozen=True)
class ElementwiseScales:
    """The scales of the operands, in operand order, of the result, and of LRELU's negative operand."""

    operands: tuple[Scale, Scale]
    result: Scale
    negative: Scale


@dataclass(frozen=True)
class ElementwiseInputs:
    """The inputs of ELEMENTWISE.

    Attributes:
        sources: in operand order; numbers have their zero point subtracted already.
        bits: bits of an element.
        maps: the inputs that are feature maps, with the name of their registers.
    """

    sources: tuple[FeatureMap | int, ...]
    bits: int
    maps: tuple[tuple[str, FeatureMap], ...]


@dataclass(frozen=True)
class PoolScaling:
    """How a pool scales, as in `Pool`.

    Attributes:
        scale: for all channels, or with `channel_scales` only the rounding of those.
        divide: whether the hardware divides by the number of valid taps first.
        channel_scales: where each channel's scale is, or None.
    """

    scale: Scale
    divide: bool = False
    channel_scales: ChannelScales | None = None


MAX_ELEMENTS = 1 << 25  # per feature map; far above any memory an Ethos-U is built with
SIDES = ("TOP", "LEFT", "BOTTOM", "RIGHT")


class Fields(ABC):
    """Reads groups of registers from a register file. Methods raise Fault for values they do not know."""

    dialect: Dialect
    max_regions = 8
    max_bits = 32  # per element

    def __init__(self, configuration: EthosU) -> None:
        self.configuration = configuration
        self.registers = RegisterFile(self.dialect)
        self.get = self.registers.get
        self.fault = self.registers.fault
        self.malformed = self.registers.malformed
        self.unsupported = self.registers.unsupported
        self.chains: dict[int, FeatureMap] = {}

    # --- differs between generations

    @abstractmethod
    def precision(self, name: str) -> Precision:
        """Read the precision register of "IFM", "IFM2" or "OFM"."""

    @abstractmethod
    def activation(self, ofm: FeatureMap) -> Activation:
        """Return the clamp and look-up of an OFM."""

    @abstractmethod
    def ublock(self) -> tuple[int, int, int]:
        """Return the micro-block of the current operation."""

    @abstractmethod
    def accumulator_bits(self) -> int:
        """Return the width of the accumulators."""

    @abstractmethod
    def start(self) -> FeatureMap | None:
        """Return the initial values of a convolution's sums, or None for zero."""

    @abstractmethod
    def ofm_scale(self) -> Scale:
        """Return OFM_SCALE, with its rounding."""

    @abstractmethod
    def channel_rounding(self) -> Scale:
        """Return a scale that has the rounding of the scales per channel."""

    @abstractmethod
    def weights(self, kernel: Kernel, part_kernel: bool, depthwise: bool, ifm: FeatureMap, ofm: FeatureMap) -> Weights:
        """Return where the operation's weights and scales are, and how they are ordered."""

    @abstractmethod
    def channel_scales(self, ofm: FeatureMap) -> ChannelScales:
        """Return where a pool's scales per channel are."""

    @abstractmethod
    def operands(self, mode: ElementwiseMode) -> ElementwiseInputs:
        """Return the inputs of ELEMENTWISE."""

    @abstractmethod
    def elementwise_scales(self, mode: ElementwiseMode, ifm_bits: int) -> ElementwiseScales:
        """Return the scales of ELEMENTWISE's operands and result."""

    @abstractmethod
    def pool_scaling(self, mode: PoolMode, kernel: Kernel, ofm: FeatureMap) -> PoolScaling:
        """Return how a pool divides and scales. `ofm`: its OFM."""

    @abstractmethod
    def dma(self, length: int) -> Dma:
        """Return the transfer that the registers describe, without its accesses."""

    # --- the same in all generations

    def has_global_scale(self) -> bool:
        """Return whether OFM_SCALE scales all channels, instead of one scale per channel."""
        return bool(self.get("OFM_PRECISION") >> 8 & 1)

    def element(self, name: str, size_at: int) -> tuple[int, bool]:
        """Return bits and sign of an element; the size field of the precision register starts at bit `size_at`."""
        value = self.get(f"{name}_PRECISION")
        bits, signed = 8 << (value >> size_at & 3), bool(value & 1)
        if (bits, signed) not in DTYPES or bits > self.max_bits or value & (0xF & ~(1 | 3 << size_at)):
            raise self.unsupported(f"{name}_PRECISION", value, "no known element type")
        return bits, signed

    def layout(self, name: str) -> Layout:
        """Return whether a map is stored as NHWC or in bricks."""
        value = self.get(f"{name}_PRECISION")
        layout = value >> 6 & 3
        if layout not in (Layout.NHWC, Layout.BRICKS):
            raise self.malformed(f"{name}_PRECISION", value, "neither NHWC nor NHCWB16")
        return Layout(layout)

    def zero_point(self, name: str, signed: bool) -> int:
        """Return a zero point, sign-extended if the elements are signed."""
        return self.short(f"{name}_ZERO_POINT", signed)

    def short(self, register: str, signed: bool) -> int:
        """Return the 16 bits of a register as a number."""
        value = self.get(register)
        return value - 0x10000 if signed and value >= 0x8000 else value

    def clamp(self, low: int, high: int) -> tuple[int, int]:
        """Return ACTIVATION_MIN and _MAX, limited to the range from `low` to `high` and read as signed if `low` is
        negative.
        """
        minimum, maximum = (self.short(f"ACTIVATION_{end}", low < 0) for end in ("MIN", "MAX"))
        minimum, maximum = max(minimum, low), min(maximum, high)
        if minimum > maximum:
            value = self.get("ACTIVATION_MIN")
            raise self.malformed("ACTIVATION_MIN", value, f"above the upper limit {maximum}")
        return minimum, maximum

    def curve(self, curve: Curve, ofm: FeatureMap, table: int | None) -> Activation:
        """Return tanh or sigmoid, and the clamp of its result. Raises Fault for an output that is not established.

        Vela's Python generator clamps sigmoid to its values at -8 and 8, where TensorFlow Lite Micro clamps the input.
        """
        if (ofm.bits, ofm.signed) != (16, True):
            message = f"{curve.name} with this output is not established"
            raise self.unsupported("OFM_PRECISION", self.get("OFM_PRECISION"), message)
        if ofm.zero_point:
            raise self.unsupported("OFM_ZERO_POINT", ofm.zero_point, f"{curve.name} with it is not established")
        minimum, maximum = self.clamp(*ofm.limits)
        return Activation(minimum, maximum, clamp=False, table=table, index_bits=16, curve=curve)

    def check_length(self, order: WeightOrder, ifm: FeatureMap) -> None:
        """Raise Fault if there are more weights than any real operation has."""
        total = sum(order.lengths)
        if total > MAX_ELEMENTS:
            raise self.unsupported("IFM_DEPTH_M1", ifm.depth - 1, f"{total} weights in one operation")

    def feature_map(self, name: str, height: int, width: int, depth: int) -> FeatureMap:
        """Return the feature map of the given shape whose registers start with `name`."""
        precision = self.precision(name)
        get = self.get
        if precision.absent:
            raise self.unsupported(f"{name}_PRECISION", get(f"{name}_PRECISION"), "nothing is stored")
        zero_point = self.zero_point(name, precision.signed)
        bits, signed = precision.bits, precision.signed
        if height * width * depth > MAX_ELEMENTS:
            sizes = {get(register): register for register in self.size_registers(name)}
            largest = max(sizes)
            message = f"{name} has {height}x{width}x{depth} elements"
            raise self.unsupported(sizes[largest], largest, message)
        if precision.layout is Layout.CHAIN:
            shape, region = (height, width, depth), get(f"{name}_REGION")
            return self._chain(name, chain(region, shape, bits, signed, zero_point))
        return FeatureMap(
            region=get(f"{name}_REGION"),
            height=height,
            width=width,
            depth=depth,
            layout=precision.layout,
            bits=bits,
            signed=signed,
            zero_point=zero_point,
            bases=(get(f"{name}_BASE0"), get(f"{name}_BASE1"), get(f"{name}_BASE2"), get(f"{name}_BASE3")),
            stride_y=get(f"{name}_STRIDE_Y"),
            stride_x=get(f"{name}_STRIDE_X"),
            stride_c=get(f"{name}_STRIDE_C") if precision.layout is Layout.BRICKS else 0,
            split=(get(f"{name}_WIDTH0_M1") + 1, get(f"{name}_HEIGHT0_M1") + 1, get(f"{name}_HEIGHT1_M1") + 1),
            axes=precision.axes,
            reverse=precision.reverse,
        )

    def accumulators(self, *, write: bool) -> FeatureMap:
        """Return the accumulators as the OFM, or as the initial values of the next operation's sums."""
        name = "OFM" if write else "IFM2"
        return self._chain(name, chain(ACCUMULATORS, self.ofm_shape(), 64, True, 0))

    def _chain(self, name: str, chain: FeatureMap) -> FeatureMap:
        """Remember a map that is put into a chain. Check that a map taken out of a chain is the one that was put in."""
        if name == "OFM":
            self.chains[chain.region] = chain
            return chain
        source = self.chains.get(chain.region)
        if source is None:
            register = "ACC_FORMAT" if chain.is_accumulators else f"{name}_REGION"
            raise self.malformed(register, self.get(register), "nothing was put into this chain")
        if (source.shape, source.bits, source.signed) != (chain.shape, chain.bits, chain.signed):
            raise self.malformed(
                f"{name}_PRECISION",
                self.get(f"{name}_PRECISION"),
                f"the chain holds {source.shape} of {source.bits} bits, not {chain.shape} of {chain.bits}",
            )
        return chain

    def size_registers(self, name: str) -> tuple[str, ...]:
        """Return the registers that hold a map's shape."""
        return "OFM_DEPTH_M1" if name == "OFM" else "IFM_DEPTH_M1", "OFM_WIDTH_M1", "OFM_HEIGHT_M1"

    def ofm_shape(self) -> tuple[int, int, int]:
        """Return height, width and depth of the OFM."""
        get = self.get
        return get("OFM_HEIGHT_M1") + 1, get("OFM_WIDTH_M1") + 1, get("OFM_DEPTH_M1") + 1

    def ofm(self) -> FeatureMap:
        """Return the OFM. Call it after reading the inputs: the OFM may go into the chain that an input comes from."""
        height, width, depth = self.ofm_shape()
        self.chains.pop(ACCUMULATORS, None)  # this operation overwrites what they held for the next one
        return self.feature_map("OFM", height, width, depth)

    def block(self) -> Block:
        """Return the OFM block."""
        get = self.get
        height, width, depth = (get(f"OFM_BLK_{axis}_M1") + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH"))
        return Block(height, width, depth, self.ublock())

    def kernel(self) -> tuple[Kernel, bool]:
        """Return the kernel, and whether weights come part-kernel-first."""
        get = self.get
        value = get("KERNEL_STRIDE")
        if value & 0x20:
            raise self.unsupported("KERNEL_STRIDE", value, "kernel decomposition in 4x4 is not established")
        dilation_y, dilation_x = (value >> 4 & 1) + 1, (value >> 3 & 1) + 1
        taps = []
        for axis, dilation in (("HEIGHT", dilation_y), ("WIDTH", dilation_x)):
            reach = get(f"KERNEL_{axis}_M1")
            if reach % dilation:
                raise self.malformed(f"KERNEL_{axis}_M1", reach, f"not a multiple of the dilation {dilation}")
            taps.append(reach // dilation + 1)
        return Kernel(
            height=taps[0],
            width=taps[1],
            stride_y=(value >> 1 & 1 | value >> 8 & 2) + 1,
            stride_x=(value & 1 | value >> 5 & 2) + 1,
            dilation_y=dilation_y,
            dilation_x=dilation_x,
            top=get("IFM_PAD_TOP"),
            left=get("IFM_PAD_LEFT"),
            bottom=get("IFM_PAD_BOTTOM"),
            right=get("IFM_PAD_RIGHT"),
        ), bool(value & 4)

    def upscale(self) -> Upscale:
        """Return the upscaling mode."""
        value = self.get("IFM_UPSCALE")
        if value >= len(Upscale):
            raise self.malformed("IFM_UPSCALE", value, "no known upscaling")
        return Upscale(value)

    def kernel_input(self, kernel: Kernel, upscale: Upscale, depth: int, name: str = "IFM") -> FeatureMap:
        """Return the IFM of a convolution or pool. Its height and width follow from the OFM's."""
        ofm_height, ofm_width, _ = self.ofm_shape()
        height, width = input_size(kernel, ofm_height, ofm_width)
        if height < 1 or width < 1:
            message = f"padding leaves an input of {height}x{width}"
            raise self.padding_fault(FailureKind.PARSE, ("TOP", "BOTTOM") if height < 1 else ("LEFT", "RIGHT"), message)
        if upscale is not Upscale.NONE:
            height, width = -(-height // 2), -(-width // 2)
        ifm = self.feature_map(name, height, width, depth)
        low, high = ifm.limits
        if (kernel.padded or upscale is Upscale.ZEROS) and not low <= ifm.zero_point <= high:
            raise self.unsupported(f"{name}_ZERO_POINT", ifm.zero_point, "padding with it leaves the input's range")
        taps = kernel.height * kernel.width
        padded = (height + kernel.top + kernel.bottom) * (width + kernel.left + kernel.right) * depth
        if padded > MAX_ELEMENTS or ofm_width * taps * depth > MAX_ELEMENTS:
            axis = "HEIGHT" if kernel.height > kernel.width else "WIDTH"
            value = self.get(f"KERNEL_{axis}_M1")
            message = f"{padded} elements, or {ofm_width * taps * depth} for a row of the output"
            raise self.unsupported(f"KERNEL_{axis}_M1", value, message)
        return ifm

    def padding_fault(self, kind: FailureKind, sides: tuple[str, ...], message: str) -> Fault:
        """Return the fault for the largest padding on one of the sides."""
        value, register = max((self.get(f"IFM_PAD_{side}"), f"IFM_PAD_{side}") for side in sides)
        return self.fault(kind, register, value, message)

    def kernel_fault(self, message: str, but: tuple[str, ...] = ()) -> Fault:
        """Return the fault for the register that makes the kernel read more than one position, registers `but`
        excepted.
        """
        names = ("KERNEL_HEIGHT_M1", "KERNEL_WIDTH_M1", *(f"IFM_PAD_{side}" for side in SIDES), "IFM_UPSCALE")
        register = next((name for name in names if name not in but and self.get(name)), "KERNEL_STRIDE")
        return self.unsupported(register, self.get(register), message)

    def stream(self, name: str, number: int = 0) -> ByteRange:
        """Return where stream number `number` of weights or scales ("WEIGHT", "SCALE") is."""
        prefix = f"{name}{number or ''}"
        length = self.get(f"{prefix}_LENGTH")
        base = self.get(f"{prefix}_BASE") if length else 0
        return ByteRange(self.get(f"{name}_REGION"), base, length)

    def accesses(
        self,
        ofm: FeatureMap,
        *ifms: tuple[str, FeatureMap],
        streams: tuple[ByteRange, ...] = (),
        scales: tuple[ByteRange, ...] = (),
    ) -> tuple[Access, ...]:
        """Return the accesses of an operation: inputs by register name, weights, scales, OFM. Chains have none."""
        maps = [(name, ifm, False) for name, ifm in ifms] + [("OFM", ofm, True)]
        accesses = []
        for name, feature_map, write in maps:
            if feature_map.layout is Layout.CHAIN:
                continue
            begin, end = feature_map.extent(whole_bricks=not write)
            size = min(feature_map.elements * feature_map.size, end - begin)
            accesses.append(Access(f"{name}_BASE0", feature_map.region, begin, end, write, size))
        for name, places in (("WEIGHT", streams), ("SCALE", scales)):
            for number, at in enumerate(places):
                if at.length:
                    register = f"{name}{number or ''}_BASE"
                    accesses.append(Access(register, at.region, at.base, at.base + at.length, False, at.length))
        return tuple(accesses)

    def dma_region(self, side: str) -> int:
        """Return the region of one side of a DMA ("SRC", "DST"), or INTERNAL."""
        value = self.get(f"DMA0_{side}_REGION")
        region = INTERNAL if value & 0x100 else value & 0xFF
        if region >= self.max_regions:
            raise self.malformed(f"DMA0_{side}_REGION", value, f"there are {self.max_regions} regions")
        return region
