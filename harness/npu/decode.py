"""Command stream to operations: every register resolved and checked, nothing executed.

Registers keep their values for the whole stream; an operation uses what was last written (facts/ethos-u-npu.md 2).
Any stream of bytes either decodes or ends in a Fault: a register nobody wrote, a value without a known meaning, or a
combination whose arithmetic is not established is refused, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from harness.npu.configuration import Configuration
from harness.npu.fault import Fault
from harness.npu.featuremap import DTYPES, FeatureMap, Layout
from harness.npu.operations import (
    INTERNAL,
    Access,
    Activation,
    Block,
    Convolution,
    Dma,
    Elementwise,
    Kernel,
    Op,
    OperandScale,
    Pool,
    Upscale,
    Weights,
)
from harness.npu.output import TABLE_BYTES
from harness.npu.registers import (
    CODE_MASK,
    FIRST_REGISTER,
    LONG,
    PAYLOAD_SHIFT,
    SHORT,
    ElementwiseMode,
    Operation,
    PoolMode,
    Register,
)
from harness.npu.scaling import Rounding, Scale
from harness.npu.weights import SCALE_BYTES, WeightOrder
from harness.npu.windows import input_size

MAX_ELEMENTS = 1 << 25  # of a feature map; far above any memory an Ethos-U55 is built with
MAX_WORK = 1 << 37  # multiplications of one operation; a stream asking for more is broken
ONE = Scale()
IMPLICIT_SHIFT = {8: (19, 20), 16: (14, 15)}  # by IFM bits: shift of the operand ADD/SUB leave unscaled, early bits
CLIP_RANGES = {2: (0, 255), 3: (-128, 127), 5: (-32768, 32767)}
TABLE_FUNCTIONS = range(16, 24)
UNARY = (ElementwiseMode.ABS, ElementwiseMode.CLZ, ElementwiseMode.LRELU)
UNSCALED = (ElementwiseMode.MIN, ElementwiseMode.MAX, ElementwiseMode.CLZ, ElementwiseMode.SHR, ElementwiseMode.SHL)


def commands(stream: bytes) -> Iterator[tuple[int, int, int, int | None]]:
    """Offset, code, parameter and payload (None for a short command) of each command word; Fault if it is cut off."""
    if len(stream) % 4:
        raise Fault("parse", len(stream) & ~3, "STREAM", "length", len(stream), "not a whole number of 32-bit words")
    words = np.frombuffer(stream, "<u4").tolist()
    at = 0
    while at < len(words):
        word = words[at]
        offset = at * 4
        payload_words = word >> PAYLOAD_SHIFT & 3
        if word >> 10 & 0xF:
            raise Fault("parse", offset, "STREAM", "command word", word, "bits 10-13 are not zero")
        at += 1
        payload = None
        if payload_words > 1:
            raise Fault("parse", offset, "STREAM", "command word", word, f"payload of {payload_words} words")
        if payload_words:
            if at >= len(words):
                raise Fault("parse", offset, "STREAM", "command word", word, "the stream ends before its payload")
            payload = words[at]
            at += 1
        yield offset, word & CODE_MASK, word >> 16, payload


def decode(stream: bytes, configuration: Configuration) -> tuple[Op, ...]:
    """The kernel and DMA operations of a command stream, in order; Fault if it is not understood completely."""
    return _Decoder(configuration).decode(stream)


class _Decoder:
    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.state: dict[str, int] = {}
        self.offset = 0
        self.op = "STREAM"
        self.makers: dict[int, Callable[[int], Op]] = {
            Operation.CONV: self._convolution,
            Operation.DEPTHWISE: self._depthwise,
            Operation.POOL: self._pool,
            Operation.ELEMENTWISE: self._elementwise,
            Operation.DMA_START: self._dma,
        }

    def decode(self, stream: bytes) -> tuple[Op, ...]:
        ops: list[Op] = []
        for offset, code, parameter, payload in commands(stream):
            self.offset = offset
            if payload is not None:
                self._write(LONG.get(code), code, parameter << 32 | payload)
            elif code >= FIRST_REGISTER:
                self._write(SHORT.get(code), code, parameter)
            elif code == Operation.STOP:
                return tuple(ops)
            elif code in self.makers:
                self.op = Operation(code).name
                ops.append(self.makers[code](parameter))
                self.op = "STREAM"
            elif code not in Operation.__members__.values():
                raise self.fault("parse", "opcode", code, "no Ethos-U55 operation has this code")
        raise Fault("parse", len(stream), "STREAM", "length", len(stream), "the stream ends without STOP")

    def fault(self, kind: str, register: str, value: int, message: str) -> Fault:
        return Fault(kind, self.offset, self.op, register, value, message)

    def get(self, register: str) -> int:
        """The value of a register; Fault if the stream never wrote it."""
        try:
            return self.state[register]
        except KeyError:
            raise self.fault(
                "parse", register, 0, "the operation needs this register, which was never written"
            ) from None

    def _write(self, register: Register | None, code: int, value: int) -> None:
        if register is None:
            raise self.fault("parse", "opcode", code, "no Ethos-U55 register has this code")
        if value & ~register.valid:
            self.op = register.name
            raise self.fault(
                "parse", register.name, value, f"bits outside of 0x{register.valid:x} have no known meaning"
            )
        if register.signed and value >> 39:
            value -= 1 << 40
        self.state[register.name] = value

    # --- parts that operations share

    def _precision(self, name: str, size_at: int) -> tuple[Layout, int, bool]:
        value = self.get(f"{name}_PRECISION")
        bits = 8 << (value >> size_at & 3)
        signed = bool(value & 1)
        layout = value >> 6 & 3
        if (bits, signed) not in DTYPES or value & (0xF & ~(1 | 3 << size_at)):
            raise self.fault("unsupported", f"{name}_PRECISION", value, "no known element type")
        if layout not in (Layout.NHWC, Layout.BRICKS):
            raise self.fault("parse", f"{name}_PRECISION", value, "neither NHWC nor NHCWB16")
        return Layout(layout), bits, signed

    def _zero_point(self, name: str, signed: bool) -> int:
        value = self.get(f"{name}_ZERO_POINT")
        return value - 0x10000 if signed and value >= 0x8000 else value

    def _map(self, name: str, size_at: int, height: int, width: int, depth: int) -> FeatureMap:
        layout, bits, signed = self._precision(name, size_at)
        get = self.get
        feature_map = FeatureMap(
            region=get(f"{name}_REGION"),
            height=height,
            width=width,
            depth=depth,
            layout=layout,
            bits=bits,
            signed=signed,
            zero_point=self._zero_point(name, signed),
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

    def _ofm(self) -> FeatureMap:
        get = self.get
        return self._map("OFM", 1, get("OFM_HEIGHT_M1") + 1, get("OFM_WIDTH_M1") + 1, get("OFM_DEPTH_M1") + 1)

    def _block(self) -> Block:
        get = self.get
        return Block(get("OFM_BLK_HEIGHT_M1") + 1, get("OFM_BLK_WIDTH_M1") + 1, get("OFM_BLK_DEPTH_M1") + 1)

    def _rounding(self, register: str) -> Rounding:
        value = self.get(register)
        field = value >> 14
        if field not in (0, 1, 2):
            raise self.fault("parse", register, value, "rounding field 3 has no known meaning")
        return Rounding(field)

    def _scale(self, register: str, rounding: Rounding, early_bits: int = 0) -> Scale:
        value = self.get(register)
        return Scale(value & 0xFFFFFFFF, value >> 32, rounding, early_bits)

    def _activation(self, ofm: FeatureMap) -> Activation:
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
        return Activation(minimum, maximum, table=table, signed_index=signed)

    def _kernel(self) -> tuple[Kernel, bool]:
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

    def _upscale(self) -> Upscale:
        value = self.get("IFM_UPSCALE")
        if value not in list(Upscale):
            raise self.fault("parse", "IFM_UPSCALE", value, "no known upscaling")
        return Upscale(value)

    def _kernel_input(self, kernel: Kernel, upscale: Upscale, ofm: FeatureMap, depth: int) -> FeatureMap:
        """The IFM of a convolution or pool, whose height and width follow from the OFM's."""
        height, width = input_size(kernel, ofm.height, ofm.width)
        if height < 1 or width < 1:
            raise self.fault("parse", "IFM_PAD_TOP", kernel.top, f"padding leaves an input of {height}x{width}")
        if upscale is not Upscale.NONE:
            height, width = -(-height // 2), -(-width // 2)
        ifm = self._map("IFM", 2, height, width, depth)
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

    def _access(self, name: str, feature_map: FeatureMap, *, write: bool) -> Access:
        begin, end = feature_map.extent(whole_bricks=not write)
        size = min(feature_map.elements * feature_map.size, end - begin)
        return Access(f"{name}_BASE0", feature_map.region, begin, end, write, size)

    # --- operations

    def _convolution(self, parameter: int) -> Op:
        return self._mac(parameter, depthwise=False)

    def _depthwise(self, parameter: int) -> Op:
        return self._mac(parameter, depthwise=True)

    def _mac(self, parameter: int, *, depthwise: bool) -> Op:
        if parameter:
            raise self.fault("parse", self.op, parameter, "the operation's parameter must be 0")
        ofm = self._ofm()
        kernel, part_kernel = self._kernel()
        upscale = self._upscale()
        depth = self.get("IFM_DEPTH_M1") + 1
        if depthwise and depth != ofm.depth:
            raise self.fault("unsupported", "IFM_DEPTH_M1", depth - 1, f"depthwise with {ofm.depth} output channels")
        ifm = self._kernel_input(kernel, upscale, ofm, depth)
        if ifm.bits == 32:
            raise self.fault("unsupported", "IFM_PRECISION", self.get("IFM_PRECISION"), "convolution of 32-bit inputs")
        precision = self.get("OFM_PRECISION")
        per_channel = not precision >> 8 & 1
        rounding = self._rounding("OFM_PRECISION")
        scale = Scale(rounding=rounding) if per_channel else self._scale("OFM_SCALE", rounding)
        accumulator = self.get("ACC_FORMAT")
        if accumulator not in (0, 1):
            raise self.fault("unsupported", "ACC_FORMAT", accumulator, "accumulator format is not established")
        block = self._block()
        weights = self._weights(kernel, part_kernel, depthwise, ifm, ofm, block)
        return Convolution(
            offset=self.offset,
            name=self.op,
            ifm=ifm,
            ofm=ofm,
            kernel=kernel,
            upscale=upscale,
            weights=weights,
            per_channel=per_channel,
            scale=scale,
            activation=self._activation(ofm),
            block=block,
            accumulator_bits=40 if accumulator else 32,
            accesses=(
                self._access("IFM", ifm, write=False),
                Access(
                    "WEIGHT_BASE", weights.region, weights.base, weights.base + weights.length, False, weights.length
                ),
                Access(
                    "SCALE_BASE",
                    weights.scale_region,
                    weights.scale_base,
                    weights.scale_base + weights.scale_length,
                    False,
                    weights.scale_length,
                ),
                self._access("OFM", ofm, write=True),
            ),
        )

    def _weights(
        self, kernel: Kernel, part_kernel: bool, depthwise: bool, ifm: FeatureMap, ofm: FeatureMap, block: Block
    ) -> Weights:
        get = self.get
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
        if order.length > MAX_ELEMENTS:
            raise self.fault("unsupported", "IFM_DEPTH_M1", ifm.depth - 1, f"{order.length} weights in one operation")
        scale_length = get("SCALE_LENGTH")
        if scale_length < SCALE_BYTES * ofm.depth:
            raise self.fault("parse", "SCALE_LENGTH", scale_length, f"too short for {ofm.depth} channels")
        return Weights(
            region=get("WEIGHT_REGION"),
            base=get("WEIGHT_BASE"),
            length=get("WEIGHT_LENGTH"),
            scale_region=get("SCALE_REGION"),
            scale_base=get("SCALE_BASE"),
            scale_length=scale_length,
            order=order,
        )

    def _pool(self, parameter: int) -> Op:
        if parameter not in list(PoolMode):
            raise self.fault("parse", "POOL", parameter, "no known pooling mode")
        mode = PoolMode(parameter)
        self.op = f"POOL {mode.name}"
        ofm = self._ofm()
        kernel, _ = self._kernel()
        upscale = self._upscale()
        depth = self.get("IFM_DEPTH_M1") + 1
        expected = 1 if mode is PoolMode.REDUCE_SUM else depth
        if ofm.depth != expected:
            raise self.fault("unsupported", "OFM_DEPTH_M1", ofm.depth - 1, f"an output depth of {expected} is expected")
        ifm = self._kernel_input(kernel, upscale, ofm, depth)
        if mode is PoolMode.REDUCE_SUM and not (kernel.is_point and upscale is Upscale.NONE):
            raise self.fault("unsupported", "KERNEL_HEIGHT_M1", kernel.height - 1, "sum over channels and positions")
        if mode is not PoolMode.REDUCE_SUM and ifm.bits == 32:
            raise self.fault("unsupported", "IFM_PRECISION", self.get("IFM_PRECISION"), "pooling of 32-bit inputs")
        if upscale is Upscale.ZEROS:
            raise self.fault("unsupported", "IFM_UPSCALE", upscale, "pooling with zeros between elements")
        if kernel.dilation_y > 1 or kernel.dilation_x > 1:
            raise self.fault("unsupported", "KERNEL_STRIDE", self.get("KERNEL_STRIDE"), "pooling with dilation")
        rounding = self._rounding("OFM_PRECISION")
        is_global = bool(self.get("OFM_PRECISION") >> 8 & 1)
        scale = self._scale("OFM_SCALE", rounding) if is_global else Scale(rounding=rounding)
        divide = mode is PoolMode.AVERAGE and kernel.padded
        if not is_global and not divide:
            # Vela emits this for a RESCALE per channel of its own; whether a pool reads a scale buffer is not known.
            raise self.fault(
                "unsupported", "OFM_PRECISION", self.get("OFM_PRECISION"), "a pool with scales per channel"
            )
        if divide and not scale.is_one:
            raise self.fault(
                "unsupported", "OFM_SCALE", self.get("OFM_SCALE"), "a padded average with a scale is not established"
            )
        return Pool(
            offset=self.offset,
            name=self.op,
            mode=mode,
            ifm=ifm,
            ofm=ofm,
            kernel=kernel,
            upscale=upscale,
            hardware_divide=divide,
            scale=scale,
            activation=self._activation(ofm),
            block=self._block(),
            accesses=(self._access("IFM", ifm, write=False), self._access("OFM", ofm, write=True)),
        )

    def _elementwise(self, parameter: int) -> Op:
        if parameter not in list(ElementwiseMode):
            raise self.fault("parse", "ELEMENTWISE", parameter, "no known elementwise mode")
        mode = ElementwiseMode(parameter)
        self.op = f"ELEMENTWISE {mode.name}"
        if self._upscale() is not Upscale.NONE:
            raise self.fault("unsupported", "IFM_UPSCALE", self.get("IFM_UPSCALE"), "elementwise with upscaling")
        ofm = self._ofm()
        depth = self.get("IFM_DEPTH_M1") + 1
        if depth != ofm.depth:
            raise self.fault("unsupported", "IFM_DEPTH_M1", depth - 1, f"the output has {ofm.depth} channels")
        ifm = self._map("IFM", 2, *ofm.shape)
        ifm2, scalar, reversed_operands = (None, None, False) if mode in UNARY else self._second_input(ifm, ofm)
        scale, operand_scale = self._elementwise_scales(mode, ifm, ifm2)
        accesses = [self._access("IFM", ifm, write=False), self._access("OFM", ofm, write=True)]
        if ifm2 is not None:
            accesses.append(self._access("IFM2", ifm2, write=False))
        return Elementwise(
            offset=self.offset,
            name=self.op,
            mode=mode,
            ifm=ifm,
            ifm2=ifm2,
            scalar=scalar,
            reversed_operands=reversed_operands,
            ofm=ofm,
            operand_scale=operand_scale,
            scale=scale,
            rounding=self._rounding("OFM_PRECISION"),
            activation=self._activation(ofm),
            block=self._block(),
            accesses=tuple(accesses),
        )

    def _second_input(self, ifm: FeatureMap, ofm: FeatureMap) -> tuple[FeatureMap | None, int | None, bool]:
        broadcast = self.get("IFM2_BROADCAST")
        reversed_operands = bool(broadcast & 0x40)
        _, bits, signed = self._precision("IFM2", 2)
        if bits != ifm.bits:
            raise self.fault("unsupported", "IFM2_PRECISION", self.get("IFM2_PRECISION"), f"IFM has {ifm.bits} bits")
        if not broadcast & 0x80:
            shape = (1 if broadcast >> axis & 1 else size for axis, size in enumerate(ofm.shape))
            return self._map("IFM2", 2, *shape), None, reversed_operands
        value = self.get("IFM2_SCALAR")
        value = value - 0x10000 if signed and value >= 0x8000 else value
        return None, value - self._zero_point("IFM2", signed), reversed_operands

    def _elementwise_scales(
        self, mode: ElementwiseMode, ifm: FeatureMap, ifm2: FeatureMap | None
    ) -> tuple[Scale | None, OperandScale]:
        precision = self.get("OFM_PRECISION")
        rounding = self._rounding("OFM_PRECISION")
        if mode is ElementwiseMode.SHR and rounding is Rounding.TRUNCATE:
            raise self.fault("unsupported", "OFM_PRECISION", precision, "SHR that truncates is not established")
        is_global = bool(precision >> 8 & 1)
        if is_global == (mode in UNSCALED):
            raise self.fault("unsupported", "OFM_PRECISION", precision, "this scale mode is not established here")
        scale = self._scale("OFM_SCALE", rounding) if is_global else None
        if mode is ElementwiseMode.MUL and ifm.bits == 32 and scale is not None:
            scale = Scale(1, scale.shift, rounding)  # the multiplier is ignored (facts 9.1)
        if mode not in (ElementwiseMode.ADD, ElementwiseMode.SUB):
            return scale, OperandScale()
        ifm_precision = self.get("IFM_PRECISION")
        how = ifm_precision >> 8 & 3
        if how == 3:
            raise self.fault("parse", "IFM_PRECISION", ifm_precision, "operand scaling 3 has no known meaning")
        if how == 0:
            return scale, OperandScale((self.get("OPA_SCALE") & 0xFFFF, self.get("OPB_SCALE") & 0xFFFF))
        if ifm.bits not in IMPLICIT_SHIFT:
            raise self.fault("unsupported", "IFM_PRECISION", ifm_precision, "operand scaling of 32-bit inputs")
        other_shift, early_bits = IMPLICIT_SHIFT[ifm.bits]
        operand = self._scale("OPA_SCALE", self._rounding("IFM_PRECISION"), early_bits)
        return scale, OperandScale(scaled=how - 1, scale=operand, other_shift=other_shift)

    def _dma(self, parameter: int) -> Op:
        self.op = "DMA"
        if parameter:
            raise self.fault("unsupported", "DMA_START", parameter, "only channel and mode 0 are established")
        length = self.get("DMA0_LEN")
        ends = []
        for side in ("SRC", "DST"):
            value = self.get(f"DMA0_{side}_REGION")
            if value >> 9:
                raise self.fault("unsupported", f"DMA0_{side}_REGION", value, "2D and 3D transfers are not established")
            region = INTERNAL if value & 0x100 else value & 0xFF
            if region > 7:
                raise self.fault("parse", f"DMA0_{side}_REGION", value, "there are eight regions")
            base = self.get(f"DMA0_{side}")
            ends.append(Access(f"DMA0_{side}", region, base, base + length, side == "DST", length))
        source, destination = ends
        return Dma(
            offset=self.offset,
            name=self.op,
            source_region=source.region,
            source=source.begin,
            destination_region=destination.region,
            destination=destination.begin,
            length=length,
            accesses=(source, destination),
        )
