"""Command stream to operations: every register resolved and checked, nothing executed.

Any stream of bytes either decodes or ends in a Fault: a register nobody wrote, a value without a known meaning, or a
combination whose arithmetic is not established is refused, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.npu.configuration import Configuration
from harness.npu.elementwise import UNARY
from harness.npu.fault import Fault
from harness.npu.featuremap import FeatureMap
from harness.npu.fields import MAX_ELEMENTS, Fields
from harness.npu.operations import (
    INTERNAL,
    Access,
    Block,
    Convolution,
    Dma,
    Elementwise,
    Kernel,
    Op,
    Operand,
    Pool,
    Stream,
    Upscale,
    Weights,
)
from harness.npu.registers import FIRST_REGISTER, ElementwiseMode, Operation, PoolMode
from harness.npu.scaling import ONE, Rounding, Scale
from harness.npu.stream import RegisterFile, commands
from harness.npu.weight_order import WeightOrder
from harness.npu.weights import SCALE_BYTES, ScaleLayout

IMPLICIT_SHIFT = {8: (19, 20), 16: (14, 15)}  # by IFM bits: shift of the operand ADD/SUB leave unscaled, early bits
REVERSED = 1 << 6  # IFM2_BROADCAST: IFM2 is the first operand
UNSCALED = (ElementwiseMode.MIN, ElementwiseMode.MAX, ElementwiseMode.CLZ, ElementwiseMode.SHR, ElementwiseMode.SHL)


def decode(stream: bytes, configuration: Configuration) -> tuple[Op, ...]:
    """The kernel and DMA operations of a command stream, in order; Fault if it is not understood completely."""
    return _Decoder(configuration).decode(stream)


class _Decoder:
    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.registers = RegisterFile()
        self.fields = Fields(self.registers, configuration)
        self.makers: dict[int, Callable[[int], Op]] = {
            Operation.CONV: self._convolution,
            Operation.DEPTHWISE: self._depthwise,
            Operation.POOL: self._pool,
            Operation.ELEMENTWISE: self._elementwise,
            Operation.DMA_START: self._dma,
        }

    def decode(self, stream: bytes) -> tuple[Op, ...]:
        registers = self.registers
        ops: list[Op] = []
        for offset, code, parameter, payload in commands(stream):
            registers.offset = offset
            if payload is not None:
                registers.write_long(code, parameter << 32 | payload)
            elif code >= FIRST_REGISTER:
                registers.write_short(code, parameter)
            elif code == Operation.STOP:
                return tuple(ops)
            elif code in self.makers:
                registers.op = Operation(code).name
                ops.append(self.makers[code](parameter))
                registers.op = "STREAM"
            elif code not in Operation.__members__.values():
                raise registers.fault("parse", "opcode", code, "no Ethos-U55 operation has this code")
        raise Fault("parse", len(stream), "STREAM", "length", len(stream), "the stream ends without STOP")

    def _convolution(self, parameter: int) -> Op:
        return self._mac(parameter, depthwise=False)

    def _depthwise(self, parameter: int) -> Op:
        return self._mac(parameter, depthwise=True)

    def _mac(self, parameter: int, *, depthwise: bool) -> Op:
        get = self.registers.get
        if parameter:
            raise self.fields.fault("parse", self.registers.op, parameter, "the operation's parameter must be 0")
        ofm = self.fields.ofm()
        kernel, part_kernel = self.fields.kernel()
        upscale = self.fields.upscale()
        depth = get("IFM_DEPTH_M1") + 1
        if depthwise and depth != ofm.depth:
            raise self.fields.fault(
                "unsupported", "IFM_DEPTH_M1", depth - 1, f"depthwise with {ofm.depth} output channels"
            )
        ifm = self.fields.kernel_input(kernel, upscale, ofm, depth)
        if ifm.bits == 32:
            raise self.fields.fault(
                "unsupported", "IFM_PRECISION", get("IFM_PRECISION"), "convolution of 32-bit inputs"
            )
        precision = get("OFM_PRECISION")
        per_channel = not precision >> 8 & 1
        rounding = self.fields.rounding("OFM_PRECISION")
        scale = Scale(rounding=rounding) if per_channel else self.fields.scale("OFM_SCALE", rounding)
        accumulator = get("ACC_FORMAT")
        if accumulator not in (0, 1):
            raise self.fields.fault("unsupported", "ACC_FORMAT", accumulator, "accumulator format is not established")
        block = self.fields.block()
        weights = self._weights(kernel, part_kernel, depthwise, ifm, ofm, block)
        return Convolution(
            offset=self.registers.offset,
            name=self.registers.op,
            ifm=ifm,
            ofm=ofm,
            kernel=kernel,
            upscale=upscale,
            weights=weights,
            per_channel=per_channel,
            scale=scale,
            activation=self.fields.activation(ofm),
            block=block,
            accumulator_bits=40 if accumulator else 32,
            accesses=(
                self.fields.access("IFM", ifm, write=False),
                *(Access("WEIGHT_BASE", s.region, s.base, s.base + s.length, False, s.length) for s in weights.streams),
                *(Access("SCALE_BASE", s.region, s.base, s.base + s.length, False, s.length) for s in weights.scales),
                self.fields.access("OFM", ofm, write=True),
            ),
        )

    def _weights(
        self, kernel: Kernel, part_kernel: bool, depthwise: bool, ifm: FeatureMap, ofm: FeatureMap, block: Block
    ) -> Weights:
        get = self.registers.get
        order = WeightOrder(
            depthwise=depthwise,
            part_kernel=part_kernel and not depthwise,
            ofm_depth=ofm.depth,
            ifm_depth=1 if depthwise else ifm.depth,
            height=kernel.height,
            width=kernel.width,
            dilation_y=kernel.dilation_y,
            dilation_x=kernel.dilation_x,
            ofm_block=block.depth,
            ofm_ublock=self.configuration.ublock[2],
            ifm_ublock=self.configuration.ifm_ublock_depth,
            ifm_bits=ifm.bits,
        )
        if sum(order.lengths) > MAX_ELEMENTS:
            raise self.fields.fault(
                "unsupported", "IFM_DEPTH_M1", ifm.depth - 1, f"{sum(order.lengths)} weights in one operation"
            )
        scale_length = get("SCALE_LENGTH")
        if scale_length < SCALE_BYTES * ofm.depth:
            raise self.fields.fault("parse", "SCALE_LENGTH", scale_length, f"too short for {ofm.depth} channels")
        return Weights(
            streams=(Stream(get("WEIGHT_REGION"), get("WEIGHT_BASE"), get("WEIGHT_LENGTH")),),
            scales=(Stream(get("SCALE_REGION"), get("SCALE_BASE"), scale_length),),
            order=order,
            layout=ScaleLayout.I40,
        )

    def _pool(self, parameter: int) -> Op:
        get = self.registers.get
        if parameter not in list(PoolMode):
            raise self.fields.fault("parse", "POOL", parameter, "no known pooling mode")
        mode = PoolMode(parameter)
        self.registers.op = f"POOL {mode.name}"
        ofm = self.fields.ofm()
        kernel, _ = self.fields.kernel()
        upscale = self.fields.upscale()
        depth = get("IFM_DEPTH_M1") + 1
        expected = 1 if mode is PoolMode.REDUCE_SUM else depth
        if ofm.depth != expected:
            raise self.fields.fault(
                "unsupported", "OFM_DEPTH_M1", ofm.depth - 1, f"an output depth of {expected} is expected"
            )
        ifm = self.fields.kernel_input(kernel, upscale, ofm, depth)
        if mode is PoolMode.REDUCE_SUM and not (kernel.is_point and upscale is Upscale.NONE):
            raise self.fields.fault(
                "unsupported", "KERNEL_HEIGHT_M1", kernel.height - 1, "sum over channels and positions"
            )
        if mode is not PoolMode.REDUCE_SUM and ifm.bits == 32:
            raise self.fields.fault("unsupported", "IFM_PRECISION", get("IFM_PRECISION"), "pooling of 32-bit inputs")
        if upscale is Upscale.ZEROS:
            raise self.fields.fault("unsupported", "IFM_UPSCALE", upscale, "pooling with zeros between elements")
        if kernel.dilation_y > 1 or kernel.dilation_x > 1:
            raise self.fields.fault("unsupported", "KERNEL_STRIDE", get("KERNEL_STRIDE"), "pooling with dilation")
        if max(kernel.top, kernel.bottom) >= kernel.height or max(kernel.left, kernel.right) >= kernel.width:
            raise self.fields.fault("unsupported", "IFM_PAD_TOP", kernel.top, "pooling windows with padding alone")
        rounding = self.fields.rounding("OFM_PRECISION")
        is_global = bool(get("OFM_PRECISION") >> 8 & 1)
        scale = self.fields.scale("OFM_SCALE", rounding) if is_global else Scale(rounding=rounding)
        divide = mode is PoolMode.AVERAGE and kernel.padded
        if not is_global and not divide:
            # Vela emits this for a RESCALE per channel of its own; whether a pool reads a scale buffer is not known.
            raise self.fields.fault(
                "unsupported", "OFM_PRECISION", get("OFM_PRECISION"), "a pool with scales per channel"
            )
        if divide and not scale.is_one:
            raise self.fields.fault(
                "unsupported", "OFM_SCALE", get("OFM_SCALE"), "a padded average with a scale is not established"
            )
        return Pool(
            offset=self.registers.offset,
            name=self.registers.op,
            mode=mode,
            ifm=ifm,
            ofm=ofm,
            kernel=kernel,
            upscale=upscale,
            hardware_divide=divide,
            scale=scale,
            activation=self.fields.activation(ofm),
            block=self.fields.block(),
            accesses=(self.fields.access("IFM", ifm, write=False), self.fields.access("OFM", ofm, write=True)),
        )

    def _elementwise(self, parameter: int) -> Op:
        get = self.registers.get
        if parameter not in list(ElementwiseMode):
            raise self.fields.fault("parse", "ELEMENTWISE", parameter, "no known elementwise mode")
        mode = ElementwiseMode(parameter)
        self.registers.op = f"ELEMENTWISE {mode.name}"
        if self.fields.upscale() is not Upscale.NONE:
            raise self.fields.fault("unsupported", "IFM_UPSCALE", get("IFM_UPSCALE"), "elementwise with upscaling")
        ofm = self.fields.ofm()
        depth = get("IFM_DEPTH_M1") + 1
        if depth != ofm.depth:
            raise self.fields.fault("unsupported", "IFM_DEPTH_M1", depth - 1, f"the output has {ofm.depth} channels")
        ifm = self.fields.feature_map("IFM", 2, *ofm.shape)
        second = None if mode in UNARY else self._second_input(ifm, ofm)
        scale, operand_scales = self._elementwise_scales(mode, ifm)
        accesses = [self.fields.access("IFM", ifm, write=False), self.fields.access("OFM", ofm, write=True)]
        if isinstance(second, FeatureMap):
            accesses.append(self.fields.access("IFM2", second, write=False))
        sources: tuple[FeatureMap | int, ...] = (ifm,) if second is None else (ifm, second)
        if second is not None and get("IFM2_BROADCAST") & REVERSED:
            sources = sources[::-1]
        leaky = mode is ElementwiseMode.LRELU
        return Elementwise(
            offset=self.registers.offset,
            name=self.registers.op,
            mode=mode,
            operands=tuple(Operand(source, by) for source, by in zip(sources, operand_scales, strict=False)),
            ofm=ofm,
            scale=ONE if leaky else scale,
            negative_scale=scale if leaky else ONE,
            activation=self.fields.activation(ofm),
            block=self.fields.block(),
            accesses=tuple(accesses),
        )

    def _second_input(self, ifm: FeatureMap, ofm: FeatureMap) -> FeatureMap | int:
        """The second feature map, or a number without zero point."""
        get = self.registers.get
        broadcast = get("IFM2_BROADCAST")
        _, bits, signed = self.fields.precision("IFM2", 2)
        if bits != ifm.bits:
            raise self.fields.fault("unsupported", "IFM2_PRECISION", get("IFM2_PRECISION"), f"IFM has {ifm.bits} bits")
        if not broadcast & 0x80:
            shape = (1 if broadcast >> axis & 1 else size for axis, size in enumerate(ofm.shape))
            return self.fields.feature_map("IFM2", 2, *shape)
        value = get("IFM2_SCALAR")
        value = value - 0x10000 if signed and value >= 0x8000 else value
        return value - self.fields.zero_point("IFM2", signed)

    def _elementwise_scales(self, mode: ElementwiseMode, ifm: FeatureMap) -> tuple[Scale, tuple[Scale, Scale]]:
        """The result's scale, and the operands' in operand order."""
        get = self.registers.get
        precision = get("OFM_PRECISION")
        rounding = self.fields.rounding("OFM_PRECISION")
        if mode is ElementwiseMode.SHR and rounding is Rounding.TRUNCATE:
            raise self.fields.fault("unsupported", "OFM_PRECISION", precision, "SHR that truncates is not established")
        is_global = bool(precision >> 8 & 1)
        if is_global == (mode in UNSCALED):
            raise self.fields.fault(
                "unsupported", "OFM_PRECISION", precision, "this scale mode is not established here"
            )
        scale = self.fields.scale("OFM_SCALE", rounding) if is_global else Scale(rounding=rounding)
        if mode is ElementwiseMode.MUL and ifm.bits == 32:
            scale = Scale(1, scale.shift, rounding)  # the multiplier is ignored
        if mode not in (ElementwiseMode.ADD, ElementwiseMode.SUB):
            return scale, (ONE, ONE)
        ifm_precision = get("IFM_PRECISION")
        how = ifm_precision >> 8 & 3
        if how == 3:
            raise self.fields.fault("parse", "IFM_PRECISION", ifm_precision, "operand scaling 3 has no known meaning")
        if how == 0:
            return scale, (Scale(get("OPA_SCALE") & 0xFFFF), Scale(get("OPB_SCALE") & 0xFFFF))
        if ifm.bits not in IMPLICIT_SHIFT:
            raise self.fields.fault("unsupported", "IFM_PRECISION", ifm_precision, "operand scaling of 32-bit inputs")
        other_shift, early_bits = IMPLICIT_SHIFT[ifm.bits]
        scaled = self.fields.scale("OPA_SCALE", self.fields.rounding("IFM_PRECISION"), early_bits)
        shifted = Scale(1 << other_shift)
        return scale, (scaled, shifted) if how == 1 else (shifted, scaled)

    def _dma(self, parameter: int) -> Op:
        get = self.registers.get
        self.registers.op = "DMA"
        if parameter:
            raise self.fields.fault("unsupported", "DMA_START", parameter, "only channel and mode 0 are established")
        length = get("DMA0_LEN")
        ends = []
        for side in ("SRC", "DST"):
            value = get(f"DMA0_{side}_REGION")
            if value >> 9:
                raise self.fields.fault(
                    "unsupported", f"DMA0_{side}_REGION", value, "2D and 3D transfers are not established"
                )
            region = INTERNAL if value & 0x100 else value & 0xFF
            if region > 7:
                raise self.fields.fault("parse", f"DMA0_{side}_REGION", value, "there are eight regions")
            base = get(f"DMA0_{side}")
            ends.append(Access(f"DMA0_{side}", region, base, base + length, side == "DST", length))
        source, destination = ends
        return Dma(
            offset=self.registers.offset,
            name=self.registers.op,
            source_region=source.region,
            source=source.begin,
            destination_region=destination.region,
            destination=destination.begin,
            length=length,
            accesses=(source, destination),
        )
