"""Fields of registers, and groups of them, as values: feature maps, kernels, scales, activations.

A value without a known meaning, or a combination whose arithmetic is not established, ends in a Fault.
"""

from __future__ import annotations

from harness.npu.configuration import Configuration
from harness.npu.featuremap import DTYPES, FeatureMap, Layout
from harness.npu.operations import Access, Activation, Block, Kernel, Upscale
from harness.npu.output import TABLE_BYTES
from harness.npu.scaling import Rounding, Scale
from harness.npu.stream import RegisterFile
from harness.npu.windows import input_size

MAX_ELEMENTS = 1 << 25  # of a feature map; far above any memory an Ethos-U55 is built with
MAX_WORK = 1 << 37  # multiplications of one operation; a stream asking for more is broken
CLIP_RANGES = {2: (0, 255), 3: (-128, 127), 5: (-32768, 32767)}
TABLE_FUNCTIONS = range(16, 24)


class Fields:
    """Reads groups of registers of a register file."""

    def __init__(self, registers: RegisterFile, configuration: Configuration) -> None:
        self.configuration = configuration
        self.get = registers.get
        self.fault = registers.fault

    def precision(self, name: str, size_at: int) -> tuple[Layout, int, bool]:
        """Format, bits and sign that a precision register names; the size field starts at bit `size_at`."""
        value = self.get(f"{name}_PRECISION")
        bits = 8 << (value >> size_at & 3)
        signed = bool(value & 1)
        layout = value >> 6 & 3
        if (bits, signed) not in DTYPES or value & (0xF & ~(1 | 3 << size_at)):
            raise self.fault("unsupported", f"{name}_PRECISION", value, "no known element type")
        if layout not in (Layout.NHWC, Layout.BRICKS):
            raise self.fault("parse", f"{name}_PRECISION", value, "neither NHWC nor NHCWB16")
        return Layout(layout), bits, signed

    def zero_point(self, name: str, signed: bool) -> int:
        """A zero point, sign-extended if the elements are signed."""
        value = self.get(f"{name}_ZERO_POINT")
        return value - 0x10000 if signed and value >= 0x8000 else value

    def feature_map(self, name: str, size_at: int, height: int, width: int, depth: int) -> FeatureMap:
        """The feature map that the registers starting with `name` place, of the given shape."""
        layout, bits, signed = self.precision(name, size_at)
        get = self.get
        feature_map = FeatureMap(
            region=get(f"{name}_REGION"),
            height=height,
            width=width,
            depth=depth,
            layout=layout,
            bits=bits,
            signed=signed,
            zero_point=self.zero_point(name, signed),
            bases=(get(f"{name}_BASE0"), get(f"{name}_BASE1"), get(f"{name}_BASE2"), get(f"{name}_BASE3")),
            stride_y=get(f"{name}_STRIDE_Y"),
            stride_x=get(f"{name}_STRIDE_X"),
            stride_c=get(f"{name}_STRIDE_C") if layout is Layout.BRICKS else 0,
            split=(get(f"{name}_WIDTH0_M1") + 1, get(f"{name}_HEIGHT0_M1") + 1, get(f"{name}_HEIGHT1_M1") + 1),
        )
        if feature_map.elements > MAX_ELEMENTS:
            raise self.fault(
                "unsupported", f"{name}_BASE0", feature_map.bases[0], f"the map has {feature_map.elements} elements"
            )
        return feature_map

    def ofm(self) -> FeatureMap:
        """The OFM, whose shape has registers of its own."""
        get = self.get
        return self.feature_map("OFM", 1, get("OFM_HEIGHT_M1") + 1, get("OFM_WIDTH_M1") + 1, get("OFM_DEPTH_M1") + 1)

    def block(self) -> Block:
        """The OFM block."""
        get = self.get
        return Block(get("OFM_BLK_HEIGHT_M1") + 1, get("OFM_BLK_WIDTH_M1") + 1, get("OFM_BLK_DEPTH_M1") + 1)

    def rounding(self, register: str) -> Rounding:
        """The rounding field of a precision register."""
        value = self.get(register)
        field = value >> 14
        if field not in (0, 1, 2):
            raise self.fault("parse", register, value, "rounding field 3 has no known meaning")
        return Rounding(field)

    def scale(self, register: str, rounding: Rounding, early_bits: int = 0) -> Scale:
        """A multiplier and shift."""
        value = self.get(register)
        return Scale(value & 0xFFFFFFFF, value >> 32, rounding, early_bits)

    def activation(self, ofm: FeatureMap) -> Activation:
        """Clamp and look-up for an OFM."""
        value = self.get("ACTIVATION")
        function, clip = value & 0xFFF, value >> 12
        has_table = function in TABLE_FUNCTIONS
        if function and not has_table:
            raise self.fault("unsupported", "ACTIVATION", value, f"function {function} is not established")
        if clip and clip not in CLIP_RANGES:
            raise self.fault("unsupported", "ACTIVATION", value, f"clip range {clip} is not established")
        if ofm.bits == 32 and not has_table:
            return Activation(*ofm.limits, clamp=False)
        low, high = CLIP_RANGES[clip] if clip else ofm.limits
        signed = low < 0
        minimum, maximum = self.get("ACTIVATION_MIN"), self.get("ACTIVATION_MAX")
        if signed:
            minimum, maximum = (v - 0x10000 if v >= 0x8000 else v for v in (minimum, maximum))
        minimum, maximum = max(minimum, low), min(maximum, high)
        if minimum > maximum:
            raise self.fault("parse", "ACTIVATION_MIN", minimum, f"above the upper limit {maximum}")
        if not has_table:
            return Activation(minimum, maximum)
        index_bits = 16 if ofm.bits == 16 else 8
        if high - low >= 1 << index_bits or (ofm.bits == 16 and not signed):
            raise self.fault(
                "unsupported", "ACTIVATION", value, "look-up with this range and output is not established"
            )
        table = self.configuration.lut_base + 256 * (function - 16)
        if table + TABLE_BYTES[ofm.bits] > self.configuration.shram_bytes:
            raise self.fault("parse", "ACTIVATION", value, "the table reaches beyond SHRAM")
        return Activation(minimum, maximum, table=table, index_bits=index_bits, signed_index=signed)

    def kernel(self) -> tuple[Kernel, bool]:
        """The kernel, and whether weights come part-kernel-first."""
        get = self.get
        value = get("KERNEL_STRIDE")
        if value & 0x20:
            raise self.fault("unsupported", "KERNEL_STRIDE", value, "kernel decomposition in 4x4 is not established")
        dilation_y, dilation_x = (value >> 4 & 1) + 1, (value >> 3 & 1) + 1
        taps = []
        for axis, dilation in (("HEIGHT", dilation_y), ("WIDTH", dilation_x)):
            reach = get(f"KERNEL_{axis}_M1")
            if reach % dilation:
                raise self.fault("parse", f"KERNEL_{axis}_M1", reach, f"not a multiple of the dilation {dilation}")
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
            raise self.fault("parse", "IFM_UPSCALE", value, "no known upscaling")
        return Upscale(value)

    def kernel_input(self, kernel: Kernel, upscale: Upscale, ofm: FeatureMap, depth: int) -> FeatureMap:
        """The IFM of a convolution or pool, whose height and width follow from the OFM's."""
        height, width = input_size(kernel, ofm.height, ofm.width)
        if height < 1 or width < 1:
            raise self.fault("parse", "IFM_PAD_TOP", kernel.top, f"padding leaves an input of {height}x{width}")
        if upscale is not Upscale.NONE:
            height, width = -(-height // 2), -(-width // 2)
        ifm = self.feature_map("IFM", 2, height, width, depth)
        low, high = ifm.limits
        if (kernel.padded or upscale is Upscale.ZEROS) and not low <= ifm.zero_point <= high:
            raise self.fault(
                "unsupported", "IFM_ZERO_POINT", ifm.zero_point, "padding with it leaves the input's range"
            )
        taps = kernel.height * kernel.width
        padded = (height + kernel.top + kernel.bottom) * (width + kernel.left + kernel.right) * depth
        if padded > MAX_ELEMENTS or ofm.height * ofm.width * taps * depth > MAX_WORK:
            raise self.fault("unsupported", "KERNEL_HEIGHT_M1", kernel.height - 1, "more work than any real operation")
        return ifm

    def access(self, name: str, feature_map: FeatureMap, *, write: bool) -> Access:
        """What reading or writing a feature map touches."""
        begin, end = feature_map.extent(whole_bricks=not write)
        size = min(feature_map.elements * feature_map.size, end - begin)
        return Access(f"{name}_BASE0", feature_map.region, begin, end, write, size)
