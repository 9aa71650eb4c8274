"""Fields of Ethos-U85.

Scales contain their rounding, and both operands have one. Maps may be chained from operation to operation, and
transposed or reversed on their way to memory. Look-up tables have a memory of their own.
"""

from __future__ import annotations

from ethos_hil.harness.npu.compute.elementwise import UNARY
from ethos_hil.harness.npu.compute.output import table_bytes
from ethos_hil.harness.npu.decode.fields import (
    MAX_ELEMENTS,
    ElementwiseInputs,
    ElementwiseScales,
    Fields,
    PoolScaling,
    Precision,
)
from ethos_hil.harness.npu.isa import registers_u85
from ethos_hil.harness.npu.isa.feature_map import STRAIGHT, FeatureMap, Layout
from ethos_hil.harness.npu.isa.operations import (
    Activation,
    ChannelScales,
    Curve,
    Dma,
    DmaIndex,
    DmaSide,
    Kernel,
    ResizeAxis,
    ScaleLayout,
    Weights,
)
from ethos_hil.harness.npu.isa.registers import ElementwiseMode, PoolMode
from ethos_hil.harness.npu.isa.scaling import ONE, Rounding, Scale
from ethos_hil.harness.npu.weights.decompress import SCALE_BYTES
from ethos_hil.harness.npu.weights.weight_order_u85 import WeightOrderU85

OFM_ROUNDING = {0: Rounding.DOUBLE, 1: Rounding.NATURAL, 3: Rounding.AWAY, 4: Rounding.TRUNCATE, 5: Rounding.FLOOR}
IFM_ROUNDING = {0: Rounding.DOUBLE, 1: Rounding.NATURAL}
TILES, CHAINED, ABSENT = 0, 2, 3  # storage fields of the precision registers
AXES = {0: STRAIGHT, 1: (1, 0, 2), 2: (0, 2, 1), 3: (1, 2, 0), 6: (2, 0, 1), 7: (2, 1, 0)}
UBLOCKS = ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 4))  # by the field of ACC_FORMAT: height and width
GROUP = 4  # OFM channels that a weight decoder serves at a time
# By function of ACTIVATION: bits of the index, the sign of index and entries, bits of an entry. Established with
# TensorFlow Lite; function 5 (8 to 16 bits) was not seen in any stream.
TABLES = {1: (8, False, 8), 4: (8, True, 8), 7: (8, True, 32), 8: (16, True, 16), 9: (16, True, 32)}
CURVES = {10: Curve.TANH, 11: Curve.SIGMOID}
SCALAR = 1 << 3
FROM_ZERO, GOING_ON, FROM_IFM2 = 0, 1, 2  # accumulators: input field of ACC_FORMAT
WIDE_MULTIPLIER_HINT = (
    "Vela emits this for 16-bit convolutions whose scales have 32-bit multipliers, of which it stores 15 bits; the "
    "results would be wrong on hardware too. Compile for an Ethos-U55 or U65, or use 8-bit activations"
)
MAX_EARLY_BITS = 30
BITWISE = (ElementwiseMode.AND, ElementwiseMode.OR, ElementwiseMode.XOR, ElementwiseMode.NOT, ElementwiseMode.AND_NOT)


class FieldsU85(Fields):
    """The dialect of Ethos-U85."""

    dialect = registers_u85.U85
    max_bits = 64

    def precision(self, name: str) -> Precision:
        """Return type, format and storage; for the OFM also how it is transposed or reversed on its way to memory."""
        value = self.get(f"{name}_PRECISION")
        bits, signed = self.element(name, 1 if name == "OFM" else 2)
        layout, storage = self.layout(name), value >> 14
        if storage not in (TILES, CHAINED, ABSENT):
            raise self.unsupported(f"{name}_PRECISION", value, "tiles side by side are not established")
        axes, reverse = STRAIGHT, None
        if name == "OFM":
            turned, back = value >> 11 & 7, value >> 9 & 3
            if turned not in AXES:
                raise self.malformed("OFM_PRECISION", value, "no known transposition")
            if (turned or back) and (storage != TILES or (turned and back)):
                raise self.unsupported("OFM_PRECISION", value, "this way of turning an OFM is not established")
            axes, reverse = AXES[turned], back - 1 if back else None
        if storage == CHAINED:
            layout = Layout.CHAIN
        return Precision(layout, bits, signed, axes, reverse, storage == ABSENT)

    def ublock(self) -> tuple[int, int, int]:
        """Return height and width from ACC_FORMAT, and the depth that uses all multipliers in a cycle."""
        value = self.get("ACC_FORMAT")
        field = value >> 8 & 7
        if field < len(UBLOCKS):
            height, width = UBLOCKS[field]
            size = self.configuration.size
            depth, rest = divmod(size.macs, size.ifm_ublock_depth * height * width)
            if depth and not rest and depth % (GROUP * size.decoders) == 0:
                return height, width, depth
        raise self.malformed("ACC_FORMAT", value, "this NPU has no such micro-block")

    def accumulator_bits(self) -> int:
        """Return 32 or 48."""
        value = self.get("ACC_FORMAT")
        if value & 3 not in (0, 1):
            raise self.malformed("ACC_FORMAT", value, "accumulator format is not known")
        return 48 if value & 3 else 32

    def accumulator_source(self) -> int:
        """Return FROM_ZERO, GOING_ON or FROM_IFM2."""
        return self.get("ACC_FORMAT") >> 4 & 3

    def start(self) -> FeatureMap | None:
        """Return IFM2, as wide as accumulators are stored, the sums that the last operation left, or None for zero."""
        source = self.accumulator_source()
        if source == FROM_ZERO:
            return None
        if source == GOING_ON:
            return self.accumulators(write=False)
        start = self.feature_map("IFM2", *self.ofm_shape())
        expected = 32 if self.accumulator_bits() == 32 else 64
        if source != FROM_IFM2 or start.bits != expected:
            raise self.malformed("ACC_FORMAT", self.get("ACC_FORMAT"), f"sums start with {start.bits}-bit values")
        return start

    def ofm(self) -> FeatureMap:
        """Return the OFM, or the accumulators where no OFM is stored."""
        value = self.get("ACC_FORMAT")
        if not value >> 6 & 1:
            return super().ofm()
        if not self.precision("OFM").absent:
            raise self.malformed("ACC_FORMAT", value, "accumulators are not put out, but an OFM is stored")
        return self.accumulators(write=True)

    def scale(self, name: str) -> Scale:
        """Return the scale register of "IFM", "IFM2" or "OFM"."""
        value = self.get(f"{name}_SCALE")
        rounding = (OFM_ROUNDING if name == "OFM" else IFM_ROUNDING).get(value >> 45)
        if rounding is None:
            raise self.unsupported(f"{name}_SCALE", value, "this rounding is not established")
        early_bits = value >> 38 & 0x1F
        if early_bits > MAX_EARLY_BITS:
            raise self.unsupported(f"{name}_SCALE", value, "rounding first at no bit is not established")
        return Scale(value & 0xFFFFFFFF, value >> 32 & 0x3F, rounding, early_bits)

    def ofm_scale(self) -> Scale:
        """Return OFM_SCALE."""
        return self.scale("OFM")

    def channel_rounding(self) -> Scale:
        """Return a scale with the rounding of OFM_SCALE."""
        return Scale(rounding=self.scale("OFM").rounding)

    def activation(self, ofm: FeatureMap) -> Activation:
        """Return the clamp, unless it is switched off, and a table; no effect where the accumulators keep the sums."""
        if ofm.is_accumulators:
            return Activation(*ofm.limits, clamp=False)
        value = self.get("ACTIVATION")
        function, number, free = value & 0x1F, value >> 5 & 7, bool(value >> 12)
        if function in CURVES:
            if number:
                raise self.malformed("ACTIVATION", value, "the table reaches beyond its memory")
            return self.curve(CURVES[function], ofm, 0)
        if function and function not in TABLES:
            raise self.unsupported("ACTIVATION", value, f"function {function} is not established")
        index_bits, signed, bits = TABLES.get(function, (ofm.bits, ofm.signed, ofm.bits))
        low, high = (-(1 << index_bits - 1), (1 << index_bits - 1) - 1) if signed else (0, (1 << index_bits) - 1)
        if not function and (free or ofm.bits >= 32):
            if not free:
                raise self.unsupported("ACTIVATION", value, "clamping a 32-bit output is not established")
            return Activation(low, high, clamp=False, wraps=ofm.bits < 32)
        if not free:
            low, high = self.clamp(low, high)
        if not function:
            return Activation(low, high)
        if bits != ofm.bits or ofm.signed != signed:
            entries = f"{'' if signed else 'unsigned '}{bits} bits"
            message = f"the table has entries of {entries}, which do not fit an output of {ofm.dtype}"
            raise self.malformed("ACTIVATION", value, message)
        size = table_bytes(index_bits, bits)
        if (number + 1) * size > self.configuration.size.internal_bytes:
            raise self.malformed("ACTIVATION", value, "the table reaches beyond its memory")
        return Activation(low, high, table=number * size, index_bits=index_bits, signed_index=signed)

    def weights(self, kernel: Kernel, part_kernel: bool, depthwise: bool, ifm: FeatureMap, ofm: FeatureMap) -> Weights:
        """Return one stream of weights for each decoder, or one with FWD coding, and one stream of scales."""
        form = self.get("WEIGHT_FORMAT")
        decoders = self.configuration.size.decoders
        order = WeightOrderU85(
            depthwise=depthwise,
            part_kernel=part_kernel and not depthwise,
            sparse=bool(form & 0x10),
            fast=bool(form & 1),
            ofm_depth=ofm.depth,
            ifm_depth=1 if depthwise else ifm.depth,
            height=kernel.height,
            width=kernel.width,
            stride_y=kernel.stride_y,
            stride_x=kernel.stride_x,
            dilation_y=kernel.dilation_y,
            dilation_x=kernel.dilation_x,
            ofm_block=self.get("OFM_BLK_DEPTH_M1") + 1,
            ofm_ublock=self.ublock()[2],
            ifm_bits=ifm.bits,
            macs=self.configuration.macs,
            decoders=decoders,
        )
        self.check_length(order, ifm)
        streams = tuple(self.stream("WEIGHT", number) for number in range(1 if order.fast else decoders))
        scales = self.channel_scales(ofm)
        if scales.layout is ScaleLayout.I48 and not self.has_global_scale():
            # OFM_SCALE repeats the first channel's multiplier, before it is cut.
            value = self.get("OFM_SCALE")
            if value & 0xFFFFFFFF >= 1 << 15:
                message = "48-bit accumulators have multipliers of 15 bits"
                raise self.unsupported("OFM_SCALE", value, message, hint=WIDE_MULTIPLIER_HINT)
        return Weights(streams, scales.streams, order, scales.layout)

    def channel_scales(self, ofm: FeatureMap) -> ChannelScales:
        """Return the one stream of scales, in the layout for the accumulators' width."""
        at = self.stream("SCALE")
        if at.length < SCALE_BYTES * ofm.depth:
            raise self.malformed("SCALE_LENGTH", at.length, f"too short for {ofm.depth} channels")
        return ChannelScales((at,), ScaleLayout.I32 if self.accumulator_bits() == 32 else ScaleLayout.I48)

    def operands(self, mode: ElementwiseMode) -> ElementwiseInputs:
        """Return the inputs: each may repeat along axes, or be the number in OP_SCALAR."""
        names = ("IFM",) if mode in UNARY else ("IFM", "IFM2")
        sources = tuple(map(self._operand, names))
        maps = tuple(
            (name, source) for name, source in zip(names, sources, strict=True) if isinstance(source, FeatureMap)
        )
        bits = {source.bits for _, source in maps}
        if not bits:
            raise self.unsupported("IFM_BROADCAST", self.get("IFM_BROADCAST"), "an operation on numbers alone")
        if len(bits) > 1 or max(bits) > 32:
            value = self.get("IFM2_PRECISION")
            raise self.unsupported("IFM2_PRECISION", value, "inputs of different or 64-bit widths")
        for register in (f"{name}_ZERO_POINT" for name in names if mode in BITWISE):
            if self.get(register):
                raise self.unsupported(register, self.get(register), "bits of values with a zero point")
        return ElementwiseInputs(sources, bits.pop(), maps)

    def _operand(self, name: str) -> FeatureMap | int:
        broadcast, precision = self.get(f"{name}_BROADCAST"), self.precision(name)
        if bool(broadcast & SCALAR) != precision.absent:
            raise self.malformed(f"{name}_BROADCAST", broadcast, "it contradicts the storage of the input")
        if precision.absent:
            value = self.get("OP_SCALAR")
            value = value - (1 << 32) if value >> 31 else value
            return value - self.zero_point(name, precision.signed)
        height, width, depth = (1 if broadcast >> axis & 1 else size for axis, size in enumerate(self.ofm_shape()))
        return self.feature_map(name, height, width, depth)

    def elementwise_scales(self, mode: ElementwiseMode, ifm_bits: int) -> ElementwiseScales:
        """Return the scales: every mode scales its inputs and its result; LRELU uses IFM2_SCALE for negative inputs."""
        if not self.has_global_scale():
            raise self.unsupported(
                "OFM_PRECISION", self.get("OFM_PRECISION"), "this scale mode is not established here"
            )
        first, result = self.scale("IFM"), self.scale("OFM")
        second = ONE if mode in UNARY and mode is not ElementwiseMode.LRELU else self.scale("IFM2")
        if mode is ElementwiseMode.LRELU:
            return ElementwiseScales((first, ONE), result, second)
        if mode is ElementwiseMode.MUL and ifm_bits == 32:
            result = Scale(1, result.shift, result.rounding)  # the multiplier is ignored
        return ElementwiseScales((first, second), result, ONE)

    def pool_scaling(self, mode: PoolMode, kernel: Kernel, ofm: FeatureMap) -> PoolScaling:
        """Return OFM_SCALE or scales per channel, and a division for every average.

        Velas before 5.1 write the reciprocal of the kernel's size into OFM_SCALE of an average that comes from
        TensorFlow Lite, and 1 into that of one from TOSA. An average divides by itself either way, or one of the two
        would be wrong, so the reciprocal has no effect. What another scale does is not known.
        """
        is_global = self.has_global_scale()
        scale = self.ofm_scale() if is_global else self.channel_rounding()
        if mode is not PoolMode.AVERAGE:
            return PoolScaling(scale, channel_scales=None if is_global else self.channel_scales(ofm))
        if not (scale.multiplier == 1 << scale.shift or scale.is_reciprocal_of(kernel.height * kernel.width)):
            message = "an average with a scale of its own is not established"
            raise self.unsupported("OFM_SCALE", self.get("OFM_SCALE"), message)
        return PoolScaling(Scale(rounding=scale.rounding), divide=True)

    def resize_axis(self, axis: str) -> ResizeAxis:
        """Return the mapping of OFM positions to IFM positions along "Y" or "X"."""
        scale, offset, step = (self.get(f"RESIZE_{axis}_{what}") for what in ("SCALE_N_M1", "OFFSET", "STEP"))
        whole, rest = step >> 32 & 0xF, step & 0x7FF
        if rest > scale:
            raise self.malformed(f"RESIZE_{axis}_STEP", step, f"the remainder is not below {scale + 1}")
        return ResizeAxis(scale + 1, whole * (scale + 1) + rest, offset - 0x1000 if offset >= 0x800 else offset)

    def dma(self, length: int) -> Dma:
        """Return a transfer of one to three dimensions; one of its sides may have an index."""
        get = self.get
        value = get("DMA0_SRC_REGION")
        mode = value >> 9 & 3
        if mode > 2:
            raise self.malformed("DMA0_SRC_REGION", value, "there is no fourth dimension")
        sizes = (get("DMA0_SIZE0") if mode else 1, get("DMA0_SIZE1") if mode == 2 else 1)
        for register, size in zip(("DMA0_SIZE0", "DMA0_SIZE1"), sizes, strict=True):
            if not size:
                raise self.unsupported(register, size, "a transfer of no rows")
        if mode and length * sizes[0] * sizes[1] > MAX_ELEMENTS:
            message = f"more than any real transfer has, {sizes[1]} x {sizes[0]} times"
            raise self.unsupported("DMA0_LEN", length, message)
        indexed = [side for side in ("SRC", "DST") if get(f"DMA0_{side}_REGION") >> 11 & 1]
        if len(indexed) > 1:
            raise self.malformed("DMA0_DST_REGION", get("DMA0_DST_REGION"), "only one side can have an index")
        sides = []
        for side in ("SRC", "DST"):
            strides = (
                get(f"DMA0_{side}_STRIDE0") if mode or side in indexed else 0,
                get(f"DMA0_{side}_STRIDE1") if mode == 2 else 0,
            )
            sides.append(DmaSide(self.dma_region(side), get(f"DMA0_{side}"), strides))
        index = None
        if indexed:
            maximum = get("DMA0_IDX_MAX")
            if maximum >= 1 << 31:
                raise self.malformed("DMA0_IDX_MAX", maximum, "row numbers have 31 bits")
            skip = get("DMA0_IDX_SKIP1") if mode == 2 else 0
            index = DmaIndex(get("DMA0_IDX_REGION"), get("DMA0_IDX"), maximum, skip, indexed[0] == "SRC")
        return Dma(self.registers.offset, self.registers.op, sides[0], sides[1], length, (), sizes, index)
