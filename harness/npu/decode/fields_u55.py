"""Fields of Ethos-U55 and U65.

Rounding is in the precision registers. ADD and SUB either scale one operand and shift the other, or scale both by
16-bit factors. Look-up tables are in the last 2 KB of SHRAM.
"""

from __future__ import annotations

from ethos_hil.harness.npu.compute.elementwise import UNARY
from ethos_hil.harness.npu.compute.output import table_bytes
from ethos_hil.harness.npu.decode.fields import ElementwiseInputs, ElementwiseScales, Fields, PoolScaling, Precision
from ethos_hil.harness.npu.isa import registers_u55
from ethos_hil.harness.npu.isa.feature_map import FeatureMap
from ethos_hil.harness.npu.isa.operations import (
    Activation,
    ByteRange,
    ChannelScales,
    Curve,
    Dma,
    DmaSide,
    Kernel,
    ScaleLayout,
    Weights,
)
from ethos_hil.harness.npu.isa.registers import ElementwiseMode, PoolMode
from ethos_hil.harness.npu.isa.scaling import ONE, Rounding, Scale
from ethos_hil.harness.npu.weights.decompress import SCALE_BYTES
from ethos_hil.harness.npu.weights.weight_order_u55 import WeightOrderU55

CLIP_RANGES = {2: (0, 255), 3: (-128, 127), 5: (-32768, 32767)}
CURVES = {3: Curve.TANH, 4: Curve.SIGMOID}  # by function of ACTIVATION
TABLE_FUNCTIONS = range(16, 24)
IMPLICIT_SHIFT = {8: (19, 20), 16: (14, 15)}  # by IFM bits: shift of the operand that ADD/SUB do not scale, early bits
REVERSED = 1 << 6  # IFM2_BROADCAST: IFM2 is the first operand
SCALAR = 1 << 7
UNSCALED = (ElementwiseMode.MIN, ElementwiseMode.MAX, ElementwiseMode.CLZ, ElementwiseMode.SHR, ElementwiseMode.SHL)


class FieldsU55(Fields):
    """The dialect of Ethos-U55."""

    dialect = registers_u55.U55

    def precision(self, name: str) -> Precision:
        """Return type and format; these NPUs change nothing else on the way to memory."""
        bits, signed = self.element(name, 1 if name == "OFM" else 2)
        return Precision(self.layout(name), bits, signed)

    def ublock(self) -> tuple[int, int, int]:
        """Return the configuration's micro-block, which is fixed."""
        return self.configuration.size.ublock

    def accumulator_bits(self) -> int:
        """Return 32 or 40."""
        value = self.get("ACC_FORMAT")
        if value not in (0, 1):
            raise self.unsupported("ACC_FORMAT", value, "accumulator format is not established")
        return 40 if value else 32

    def start(self) -> FeatureMap | None:
        """Return None: sums start at zero."""
        return None

    def rounding(self, register: str) -> Rounding:
        """Return the rounding field of a precision register."""
        value = self.get(register)
        fields = {0: Rounding.DOUBLE, 1: Rounding.TRUNCATE, 2: Rounding.NATURAL}
        if value >> 14 not in fields:
            raise self.malformed(register, value, "rounding field 3 has no known meaning")
        return fields[value >> 14]

    def scale(self, register: str, rounding: Rounding, early_bits: int = 0) -> Scale:
        """Return a scale register's multiplier and shift."""
        value = self.get(register)
        return Scale(value & 0xFFFFFFFF, value >> 32, rounding, early_bits)

    def ofm_scale(self) -> Scale:
        """Return OFM_SCALE, with the rounding of OFM_PRECISION."""
        return self.scale("OFM_SCALE", self.rounding("OFM_PRECISION"))

    def channel_rounding(self) -> Scale:
        """Return a scale with the rounding of OFM_PRECISION."""
        return Scale(rounding=self.rounding("OFM_PRECISION"))

    def activation(self, ofm: FeatureMap) -> Activation:
        """Return the clamp, from the clip range and the limits, and one of eight tables."""
        value = self.get("ACTIVATION")
        function, clip = value & 0xFFF, value >> 12
        has_table = function in TABLE_FUNCTIONS
        if function in CURVES and not clip:
            return self.curve(CURVES[function], ofm, None)
        if function and not has_table:
            raise self.unsupported("ACTIVATION", value, f"function {function} is not established")
        if clip and clip not in CLIP_RANGES:
            raise self.unsupported("ACTIVATION", value, f"clip range {clip} is not established")
        if ofm.bits == 32 and not has_table:
            return Activation(*ofm.limits, clamp=False)
        low, high = CLIP_RANGES[clip] if clip else ofm.limits
        signed = low < 0
        minimum, maximum = self.clamp(low, high)
        if not has_table:
            return Activation(minimum, maximum)
        index_bits = 16 if ofm.bits == 16 else 8
        if high - low >= 1 << index_bits or (ofm.bits == 16 and not signed):
            raise self.unsupported("ACTIVATION", value, "look-up with this range and output is not established")
        table = self.configuration.lut_base + 256 * (function - 16)
        if table + table_bytes(index_bits, ofm.bits) > self.configuration.size.internal_bytes:
            raise self.malformed("ACTIVATION", value, "the table reaches beyond SHRAM")
        return Activation(minimum, maximum, table=table, index_bits=index_bits, signed_index=signed)

    def weights(self, kernel: Kernel, part_kernel: bool, depthwise: bool, ifm: FeatureMap, ofm: FeatureMap) -> Weights:
        """Return one stream of weights and one of scales for each core."""
        block, cores = self.get("OFM_BLK_DEPTH_M1") + 1, self.configuration.size.cores
        if block < cores:
            raise self.malformed("OFM_BLK_DEPTH_M1", block - 1, f"{cores} cores cannot share it")
        order = WeightOrderU55(
            depthwise=depthwise,
            part_kernel=part_kernel and not depthwise,
            ofm_depth=ofm.depth,
            ifm_depth=1 if depthwise else ifm.depth,
            height=kernel.height,
            width=kernel.width,
            dilation_y=kernel.dilation_y,
            dilation_x=kernel.dilation_x,
            ofm_block=block,
            ofm_ublock=self.configuration.size.ublock[2],
            ifm_ublock=self.configuration.size.ifm_ublock_depth,
            ifm_bits=ifm.bits,
            cores=cores,
        )
        self.check_length(order, ifm)
        streams = tuple(self.stream("WEIGHT", core) for core in range(cores))
        return Weights(streams, self._scales(ofm.depth), order, ScaleLayout.I40)

    def _scales(self, channels: int) -> tuple[ByteRange, ...]:
        cores = self.configuration.size.cores
        streams = tuple(self.stream("SCALE", core) for core in range(cores))
        for core, at in enumerate(streams):
            owned = len(range(core, channels, cores))
            if at.length < SCALE_BYTES * owned:
                register = f"SCALE{core or ''}_LENGTH"
                raise self.malformed(register, at.length, f"too short for {owned} channels")
        return streams

    def channel_scales(self, ofm: FeatureMap) -> ChannelScales:
        """Return one stream of scales for each core."""
        return ChannelScales(self._scales(ofm.depth), ScaleLayout.I40)

    def operands(self, mode: ElementwiseMode) -> ElementwiseInputs:
        """Return the inputs: IFM has the OFM's shape; IFM2 may repeat along axes or be a 16-bit number.

        IFM2 is the first operand where IFM2_BROADCAST says so.
        """
        shape = self.ofm_shape()
        ifm = self.feature_map("IFM", *shape)
        if self.get("IFM_DEPTH_M1") + 1 != shape[2]:
            value = self.get("IFM_DEPTH_M1")
            raise self.unsupported("IFM_DEPTH_M1", value, f"the output has {shape[2]} channels")
        if mode in UNARY:
            return ElementwiseInputs((ifm,), ifm.bits, (("IFM", ifm),))
        broadcast = self.get("IFM2_BROADCAST")
        precision = self.precision("IFM2")
        if precision.bits != ifm.bits:
            raise self.unsupported("IFM2_PRECISION", self.get("IFM2_PRECISION"), f"IFM has {ifm.bits} bits")
        second: FeatureMap | int
        maps = [("IFM", ifm)]
        if broadcast & SCALAR:
            second = self.short("IFM2_SCALAR", precision.signed) - self.zero_point("IFM2", precision.signed)
        else:
            height, width, depth = (1 if broadcast >> axis & 1 else size for axis, size in enumerate(shape))
            second = self.feature_map("IFM2", height, width, depth)
            maps.append(("IFM2", second))
        return ElementwiseInputs((second, ifm) if broadcast & REVERSED else (ifm, second), ifm.bits, tuple(maps))

    def elementwise_scales(self, mode: ElementwiseMode, ifm_bits: int) -> ElementwiseScales:
        """Return the scales: ADD and SUB scale operands, LRELU only negative values; some modes scale nothing."""
        get = self.get
        precision = get("OFM_PRECISION")
        rounding = self.rounding("OFM_PRECISION")
        if mode is ElementwiseMode.SHR and rounding is Rounding.TRUNCATE:
            raise self.unsupported("OFM_PRECISION", precision, "SHR that truncates is not established")
        if self.has_global_scale() == (mode in UNSCALED):
            raise self.unsupported("OFM_PRECISION", precision, "this scale mode is not established here")
        scale = self.ofm_scale() if self.has_global_scale() else Scale(rounding=rounding)
        if mode is ElementwiseMode.LRELU:
            return ElementwiseScales((ONE, ONE), ONE, scale)
        if mode is ElementwiseMode.MUL and ifm_bits == 32:
            scale = Scale(1, scale.shift, rounding)  # the multiplier is ignored
        if mode not in (ElementwiseMode.ADD, ElementwiseMode.SUB):
            return ElementwiseScales((ONE, ONE), scale, ONE)
        ifm_precision = get("IFM_PRECISION")
        how = ifm_precision >> 8 & 3
        if how == 3:
            raise self.malformed("IFM_PRECISION", ifm_precision, "operand scaling 3 has no known meaning")
        if how == 0:
            factors = (Scale(get("OPA_SCALE") & 0xFFFF), Scale(get("OPB_SCALE") & 0xFFFF))
            return ElementwiseScales(factors, scale, ONE)
        if ifm_bits not in IMPLICIT_SHIFT:
            raise self.unsupported("IFM_PRECISION", ifm_precision, "operand scaling of 32-bit inputs")
        other_shift, early_bits = IMPLICIT_SHIFT[ifm_bits]
        # Vela writes the other operand's factor there, cut to 16 bits, or 0. It is not used. A factor other than the
        # implicit one comes from int16 operands whose scales differ by a power of two, which Vela 5.1 fuses wrongly.
        other = get("OPB_SCALE")
        if other & 0xFFFF not in (0, 1 << other_shift):
            message = f"the operand that is not scaled is shifted left by {other_shift} whatever the register says"
            raise self.unsupported("OPB_SCALE", other, message)
        scaled = self.scale("OPA_SCALE", self.rounding("IFM_PRECISION"), early_bits)
        shifted = Scale(1 << other_shift)
        return ElementwiseScales((scaled, shifted) if how == 1 else (shifted, scaled), scale, ONE)

    def pool_scaling(self, mode: PoolMode, kernel: Kernel, ofm: FeatureMap) -> PoolScaling:
        """Return no scale for a maximum, and a division for a padded average.

        For an average without padding the compiler puts the reciprocal into OFM_SCALE. For a maximum, Vela's Python
        generator sets no scale mode and writes no scales: what the registers hold is another operation's. Vela 5.0's
        other generator writes the reciprocal there too, for networks that give right answers, so it has no effect.
        """
        is_global = self.has_global_scale()
        scale = self.ofm_scale() if is_global else self.channel_rounding()
        if mode is PoolMode.MAX:
            if not scale.is_one and not scale.is_reciprocal_of(kernel.height * kernel.width):
                raise self.unsupported("OFM_SCALE", self.get("OFM_SCALE"), "a scaled maximum is not established")
            return PoolScaling(Scale(rounding=scale.rounding))
        if mode is PoolMode.AVERAGE and kernel.padded:
            if not scale.is_one:
                message = "a padded average with a scale is not established"
                raise self.unsupported("OFM_SCALE", self.get("OFM_SCALE"), message)
            return PoolScaling(scale, divide=True)
        return PoolScaling(scale, channel_scales=None if is_global else self.channel_scales(ofm))

    def dma(self, length: int) -> Dma:
        """Return a transfer of one dimension."""
        sides = []
        for side in ("SRC", "DST"):
            value = self.get(f"DMA0_{side}_REGION")
            if value >> 9:
                raise self.unsupported(f"DMA0_{side}_REGION", value, "2D and 3D transfers are not established")
            sides.append(DmaSide(self.dma_region(side), self.get(f"DMA0_{side}")))
        return Dma(self.registers.offset, self.registers.op, sides[0], sides[1], length, ())


class FieldsU65(FieldsU55):
    """The dialect of Ethos-U65: a second core has its own streams."""

    dialect = registers_u55.U65
