"""Fields of registers, and groups of them, as values: feature maps, kernels, DMA, weights' places.

What Ethos-U generations have in common is here; what differs, a dialect's module adds by deriving from Fields. A value
without a known meaning, or a combination whose arithmetic is not established, ends in a Fault.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ethos_hil.harness.npu.compute.windows import input_size
from ethos_hil.harness.npu.isa.configuration import Configuration
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.isa.feature_map import ACCUMULATORS, DTYPES, STRAIGHT, FeatureMap, Layout, chain
from ethos_hil.harness.npu.isa.operations import (
    INTERNAL,
    Access,
    Activation,
    Block,
    ChannelScales,
    Dma,
    Kernel,
    Stream,
    Upscale,
    Weights,
)
from ethos_hil.harness.npu.isa.registers import Dialect, ElementwiseMode, PoolMode
from ethos_hil.harness.npu.isa.scaling import Scale
from ethos_hil.harness.npu.isa.stream import RegisterFile
from ethos_hil.harness.npu.isa.weight_layout import WeightOrder
from ethos_hil.results.verdict import FailureKind

MAX_ELEMENTS = 1 << 25  # of a feature map; far above any memory an Ethos-U is built with
SIDES = ("TOP", "LEFT", "BOTTOM", "RIGHT")
STRIDE_MODES = 3  # DMA in one, two or three dimensions


@dataclass(frozen=True, slots=True)
class Precision:
    """What a precision register says of a feature map: element type, format, and what happens on the way to memory.

    `absent`: an input that is a number instead, or an output that is not produced.
    """

    layout: Layout
    bits: int
    signed: bool
    axes: tuple[int, int, int] = STRAIGHT
    reverse: int | None = None
    absent: bool = False


@dataclass(frozen=True, slots=True)
class ElementwiseScales:
    """Of the operands, in operand order; of the result; and of LRELU's negative operand."""

    operands: tuple[Scale, Scale]
    result: Scale
    negative: Scale


@dataclass(frozen=True, slots=True)
class Inputs:
    """Of ELEMENTWISE.

    Attributes:
        sources: in operand order; numbers have no zero point any more.
        bits: of an element.
        maps: those that are feature maps, by the name of their registers.
    """

    sources: tuple[FeatureMap | int, ...]
    bits: int
    maps: tuple[tuple[str, FeatureMap], ...]


class Fields(ABC):
    """Reads groups of registers of a register file."""

    dialect: Dialect
    max_regions = 8
    max_bits = 32  # of an element

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.registers = RegisterFile(self.dialect)
        self.get = self.registers.get
        self.fault = self.registers.fault
        self.malformed = self.registers.malformed
        self.unsupported = self.registers.unsupported
        self.chains: dict[int, FeatureMap] = {}

    # --- what differs between generations

    @abstractmethod
    def precision(self, name: str) -> Precision:
        """What the precision register of "IFM", "IFM2" or "OFM" says."""

    @abstractmethod
    def activation(self, ofm: FeatureMap) -> Activation:
        """Clamp and look-up for an OFM."""

    @abstractmethod
    def ublock(self) -> tuple[int, int, int]:
        """The micro-block of the operation at hand."""

    @abstractmethod
    def accumulator_bits(self) -> int:
        """Width of the accumulators."""

    @abstractmethod
    def start(self) -> FeatureMap | None:
        """What the sums of a convolution start with, or None for zero."""

    @abstractmethod
    def ofm_scale(self) -> Scale:
        """OFM_SCALE, with its rounding."""

    @abstractmethod
    def channel_rounding(self) -> Scale:
        """A scale whose rounding is that of scales per channel."""

    @abstractmethod
    def weights(self, kernel: Kernel, part_kernel: bool, depthwise: bool, ifm: FeatureMap, ofm: FeatureMap) -> Weights:
        """Where the operation's weights and scales are, and in which order they come."""

    @abstractmethod
    def channel_scales(self, ofm: FeatureMap) -> ChannelScales:
        """Where a pool's scales per channel are."""

    @abstractmethod
    def operands(self, mode: ElementwiseMode) -> Inputs:
        """The inputs of ELEMENTWISE."""

    @abstractmethod
    def elementwise_scales(self, mode: ElementwiseMode, ifm_bits: int) -> ElementwiseScales:
        """What is scaled by what."""

    @abstractmethod
    def hardware_divide(self, mode: PoolMode, kernel: Kernel) -> bool:
        """Whether a pool divides by its number of taps."""

    @abstractmethod
    def dma(self, length: int) -> Dma:
        """The transfer that the registers describe, but for its accesses."""

    # --- what they have in common

    def is_global(self) -> bool:
        """Whether OFM_SCALE applies, not scales per channel."""
        return bool(self.get("OFM_PRECISION") >> 8 & 1)

    def element(self, name: str, size_at: int) -> tuple[int, bool]:
        """Bits and sign of an element; the size field of the precision register starts at bit `size_at`."""
        value = self.get(f"{name}_PRECISION")
        bits, signed = 8 << (value >> size_at & 3), bool(value & 1)
        if (bits, signed) not in DTYPES or bits > self.max_bits or value & (0xF & ~(1 | 3 << size_at)):
            raise self.unsupported(f"{name}_PRECISION", value, "no known element type")
        return bits, signed

    def layout(self, name: str) -> Layout:
        """NHWC or bricks."""
        value = self.get(f"{name}_PRECISION")
        layout = value >> 6 & 3
        if layout not in (Layout.NHWC, Layout.BRICKS):
            raise self.malformed(f"{name}_PRECISION", value, "neither NHWC nor NHCWB16")
        return Layout(layout)

    def zero_point(self, name: str, signed: bool) -> int:
        """A zero point, sign-extended if the elements are signed."""
        return self.short(f"{name}_ZERO_POINT", signed)

    def short(self, register: str, signed: bool) -> int:
        """The 16 bits of a register as a number."""
        value = self.get(register)
        return value - 0x10000 if signed and value >= 0x8000 else value

    def clamp(self, low: int, high: int) -> tuple[int, int]:
        """ACTIVATION_MIN and _MAX, read with the sign of the range from `low` to `high`, and within it."""
        minimum, maximum = (self.short(f"ACTIVATION_{end}", low < 0) for end in ("MIN", "MAX"))
        minimum, maximum = max(minimum, low), min(maximum, high)
        if minimum > maximum:
            value = self.get("ACTIVATION_MIN")
            raise self.malformed("ACTIVATION_MIN", value, f"above the upper limit {maximum}")
        return minimum, maximum

    def check_length(self, order: WeightOrder, ifm: FeatureMap) -> None:
        """Fault if there are more weights than any real operation has."""
        total = sum(order.lengths)
        if total > MAX_ELEMENTS:
            raise self.unsupported("IFM_DEPTH_M1", ifm.depth - 1, f"{total} weights in one operation")

    def feature_map(self, name: str, height: int, width: int, depth: int) -> FeatureMap:
        """The feature map that the registers starting with `name` place, of the given shape."""
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
        """The accumulators as the OFM, or as what the sums of the next operation start with."""
        name = "OFM" if write else "IFM2"
        return self._chain(name, chain(ACCUMULATORS, self.ofm_shape(), 64, True, 0))

    def _chain(self, name: str, chain: FeatureMap) -> FeatureMap:
        """Keeps what is put into a chain; what is taken out of one must be what was put in."""
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
        """The registers that a map's shape comes from."""
        return "OFM_DEPTH_M1" if name == "OFM" else "IFM_DEPTH_M1", "OFM_WIDTH_M1", "OFM_HEIGHT_M1"

    def ofm_shape(self) -> tuple[int, int, int]:
        """Height, width and depth of the OFM, which have registers of their own."""
        get = self.get
        return get("OFM_HEIGHT_M1") + 1, get("OFM_WIDTH_M1") + 1, get("OFM_DEPTH_M1") + 1

    def ofm(self) -> FeatureMap:
        """The OFM. Only after the inputs: it may go into the chain that an input comes from."""
        height, width, depth = self.ofm_shape()
        self.chains.pop(ACCUMULATORS, None)  # whatever they held for the next operation is gone after this one
        return self.feature_map("OFM", height, width, depth)

    def block(self) -> Block:
        """The OFM block."""
        get = self.get
        height, width, depth = (get(f"OFM_BLK_{axis}_M1") + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH"))
        return Block(height, width, depth, self.ublock())

    def kernel(self) -> tuple[Kernel, bool]:
        """The kernel, and whether weights come part-kernel-first."""
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
        """The upscaling mode."""
        value = self.get("IFM_UPSCALE")
        if value not in list(Upscale):
            raise self.malformed("IFM_UPSCALE", value, "no known upscaling")
        return Upscale(value)

    def kernel_input(self, kernel: Kernel, upscale: Upscale, depth: int, name: str = "IFM") -> FeatureMap:
        """The IFM of a convolution or pool, whose height and width follow from the OFM's."""
        ofm_height, ofm_width, _ = self.ofm_shape()
        height, width = input_size(kernel, ofm_height, ofm_width)
        if height < 1 or width < 1:
            message = f"padding leaves an input of {height}x{width}"
            raise self.unpadded(FailureKind.PARSE, ("TOP", "BOTTOM") if height < 1 else ("LEFT", "RIGHT"), message)
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

    def unpadded(self, kind: FailureKind, sides: tuple[str, ...], message: str) -> Fault:
        """The fault for the largest padding on one of the sides."""
        value, register = max((self.get(f"IFM_PAD_{side}"), f"IFM_PAD_{side}") for side in sides)
        return self.fault(kind, register, value, message)

    def not_a_point(self, message: str, but: tuple[str, ...] = ()) -> Fault:
        """The fault for whatever makes a kernel see more than one position, registers `but` apart."""
        names = ("KERNEL_HEIGHT_M1", "KERNEL_WIDTH_M1", *(f"IFM_PAD_{side}" for side in SIDES), "IFM_UPSCALE")
        register = next((name for name in names if name not in but and self.get(name)), "KERNEL_STRIDE")
        return self.unsupported(register, self.get(register), message)

    def stream(self, name: str, number: int = 0) -> Stream:
        """Where the stream of weights or scales called `name` ("WEIGHT", "SCALE") with this number is."""
        prefix = f"{name}{number or ''}"
        length = self.get(f"{prefix}_LENGTH")
        base = self.get(f"{prefix}_BASE") if length else 0
        return Stream(self.get(f"{name}_REGION"), base, length)

    def accesses(
        self,
        ofm: FeatureMap,
        *ifms: tuple[str, FeatureMap],
        streams: tuple[Stream, ...] = (),
        scales: tuple[Stream, ...] = (),
    ) -> tuple[Access, ...]:
        """What an operation touches: inputs by register name, weights, scales, OFM. Chains have no place."""
        maps = [(name, ifm, False) for name, ifm in ifms] + [("OFM", ofm, True)]
        found = []
        for name, feature_map, write in maps:
            if feature_map.layout is Layout.CHAIN:
                continue
            begin, end = feature_map.extent(whole_bricks=not write)
            size = min(feature_map.elements * feature_map.size, end - begin)
            found.append(Access(f"{name}_BASE0", feature_map.region, begin, end, write, size))
        for name, places in (("WEIGHT", streams), ("SCALE", scales)):
            for number, at in enumerate(places):
                if at.length:
                    register = f"{name}{number or ''}_BASE"
                    found.append(Access(register, at.region, at.base, at.base + at.length, False, at.length))
        return tuple(found)

    def dma_region(self, side: str) -> int:
        """The region of a side of a DMA ("SRC", "DST"), or INTERNAL."""
        value = self.get(f"DMA0_{side}_REGION")
        region = INTERNAL if value & 0x100 else value & 0xFF
        if region >= self.max_regions:
            raise self.malformed(f"DMA0_{side}_REGION", value, f"there are {self.max_regions} regions")
        return region
