"""The decoder: from a command stream to operations, with every register resolved and checked. It executes nothing.

Any stream of bytes either decodes or raises Fault: a register that was never written, a value without a known meaning,
or a combination whose arithmetic is not established is refused, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import CommandSet
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.compute.dma import INDEX_BYTES
from ethos_hil.harness.npu.decode.fields import Fields
from ethos_hil.harness.npu.decode.fields_u55 import FieldsU55, FieldsU65
from ethos_hil.harness.npu.decode.fields_u85 import FROM_IFM2, FROM_ZERO, GOING_ON, FieldsU85
from ethos_hil.harness.npu.isa.feature_map import FeatureMap
from ethos_hil.harness.npu.isa.operations import (
    Access,
    Branch,
    Convolution,
    Dma,
    DmaSide,
    Elementwise,
    Instruction,
    Kernel,
    MatMul,
    Op,
    Operand,
    Pool,
    Resize,
    ResizeMode,
    Upscale,
)
from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER, ElementwiseMode, Opcode, PoolMode
from ethos_hil.harness.npu.isa.registers_u85 import BRANCH
from ethos_hil.harness.npu.isa.scaling import Rounding, Scale
from ethos_hil.harness.npu.isa.stream import Fault, RegisterFile, branch_targets, commands

FIELDS: dict[CommandSet, Callable[[EthosU], Fields]] = {
    CommandSet.U55: FieldsU55,
    CommandSet.U65: FieldsU65,
    CommandSet.U85: FieldsU85,
}
OPERATION_EFFORT, SLICE_EFFORT = 8, 1
MAX_EFFORT = 1 << 16  # a second of decoding; a network has hundreds of operations, a transposition thousands of slices
STREAM_BYTES = 16  # of stream allow one more effort; a slice's commands have 20 bytes, so slices alone always pass
CONTINUED = (PoolMode.MAX, PoolMode.SUM, PoolMode.MIN)  # pools that several operations with shared accumulators compute
ARGMAX_SCALE = Scale(1, 16, Rounding.FLOOR)  # shifts out the value and leaves the position, which is above it


def decode(stream: bytes, configuration: EthosU) -> tuple[Instruction, ...]:
    """Return the operations and branches of a command stream, in order. Raises Fault if any part is not understood."""
    return _Decoder(configuration).decode(stream)


class _Decoder:
    def __init__(self, configuration: EthosU) -> None:
        self.fields = FIELDS[configuration.family.command_set](configuration)
        self.dialect = self.fields.dialect
        self.registers = self.fields.registers
        self.pools = PoolRepeater(self.registers)
        self.effort = 0  # spent on decoding so far
        self.makers: dict[int, Callable[[int], Op]] = {
            Opcode.CONV: self._convolution,
            Opcode.DEPTHWISE: partial(self._mac, depthwise=True),
            Opcode.POOL: self._pool,
            Opcode.ELEMENTWISE: self._elementwise,
            Opcode.RESIZE: self._resize,
            Opcode.DMA_START: self._dma,
        }

    def decode(self, stream: bytes) -> tuple[Instruction, ...]:
        registers = self.registers
        entries = branch_targets(stream) if BRANCH in self.dialect.operations else frozenset()
        instructions: list[Instruction] = []
        self.effort = 0
        most = MAX_EFFORT + len(stream) // STREAM_BYTES
        targets: dict[int, int] = {}  # number of the next instruction, by offset of a command
        for offset, code, parameter, payload in commands(stream):
            registers.offset = offset
            targets[offset] = len(instructions)
            if offset in entries:
                self._forget()
            if self.effort > most:
                raise registers.unsupported("operations", len(instructions), "more than any real program has")
            if payload is not None:
                if code == BRANCH and BRANCH in self.dialect.operations:
                    self.effort += OPERATION_EFFORT
                    instructions.append(self._branch(parameter, payload))
                    continue
                registers.write(self.dialect.long, code, parameter << 32 | payload)
            elif code >= FIRST_REGISTER:
                registers.write(self.dialect.short, code, parameter)
            elif code == Opcode.STOP:
                return tuple(_with_target(instruction, targets) for instruction in instructions)
            elif code not in self.dialect.operations:
                raise registers.malformed("opcode", code, "this NPU has no operation with this code")
            elif code in self.makers:
                registers.op = Opcode(code).name
                instructions.append(self._operation(code, parameter))
                registers.op = "STREAM"
        raise Fault(FailureKind.PARSE, len(stream), "STREAM", "length", len(stream), "the stream ends without STOP")

    def _operation(self, code: int, parameter: int) -> Op:
        op = self.pools.repeat(code, parameter)
        self.effort += OPERATION_EFFORT if op is None else SLICE_EFFORT
        if op is None:
            op = self.makers[code](parameter)
            self.pools.remember(code, parameter, op)
        return op

    def _branch(self, parameter: int, payload: int) -> Branch:
        if parameter not in (0, 1):
            raise Fault(FailureKind.PARSE, self.registers.offset, "BRANCH", "BRANCH", parameter, "no known condition")
        self._forget()
        return Branch(self.registers.offset, "BRANCH", bool(parameter), payload)

    def _forget(self) -> None:
        """Drop all registers at a branch or its target: their values depend on the way the NPU came there."""
        self.registers.forget()
        self.fields.chains.clear()
        self.pools.forget()

    def _convolution(self, parameter: int) -> Op:
        if parameter == 1 and isinstance(self.fields, FieldsU85):
            return self._matmul(self.fields)
        return self._mac(parameter, depthwise=False)

    def _mac(self, parameter: int, *, depthwise: bool) -> Op:
        fields, get = self.fields, self.registers.get
        if parameter:
            raise fields.malformed(self.registers.op, parameter, "the operation's parameter must be 0")
        kernel, part_kernel = fields.kernel()
        upscale = fields.upscale()
        depth = get("IFM_DEPTH_M1") + 1
        ifm = fields.kernel_input(kernel, upscale, depth)
        start = fields.start()
        ofm = fields.ofm()
        if depthwise and depth != ofm.depth:
            raise fields.unsupported("IFM_DEPTH_M1", depth - 1, f"depthwise with {ofm.depth} output channels")
        if ifm.bits > 16:
            raise fields.unsupported("IFM_PRECISION", get("IFM_PRECISION"), "convolution of 32-bit inputs")
        weights = fields.weights(kernel, part_kernel, depthwise, ifm, ofm)
        is_global = fields.has_global_scale()
        return Convolution(
            offset=self.registers.offset,
            name=self.registers.op,
            ifm=ifm,
            ofm=ofm,
            kernel=kernel,
            upscale=upscale,
            weights=weights,
            per_channel=not is_global,
            scale=fields.ofm_scale() if is_global else fields.channel_rounding(),
            activation=fields.activation(ofm),
            block=fields.block(),
            accumulator_bits=fields.accumulator_bits(),
            accesses=fields.accesses(
                ofm, ("IFM", ifm), *initial_sums(start), streams=weights.streams, scales=weights.scales
            ),
            start=start,
        )

    def _matmul(self, fields: FieldsU85) -> Op:
        """Return the operation of a CONV that has its weights in IFM2."""
        get = self.registers.get
        self.registers.op = "MATMUL"
        kernel, _ = fields.kernel()
        if not kernel.is_point or fields.upscale() is not Upscale.NONE:
            raise fields.kernel_fault("a kernel with weights from a feature map")
        if fields.accumulator_source() == FROM_IFM2 or not fields.has_global_scale():
            register = "ACC_FORMAT" if fields.has_global_scale() else "OFM_PRECISION"
            message = "this kind of product of maps is not established"
            raise fields.unsupported(register, get(register), message)
        depth = get("IFM_DEPTH_M1") + 1
        ifm = fields.kernel_input(kernel, Upscale.NONE, depth)
        ifm2 = fields.feature_map("IFM2", 1, get("OFM_DEPTH_M1") + 1, depth)
        start = fields.start()
        ofm = fields.ofm()
        if ifm.bits > 16 or ifm.bits != ifm2.bits:
            message = f"a product of {ifm.bits} and {ifm2.bits} bits"
            raise fields.unsupported("IFM2_PRECISION", get("IFM2_PRECISION"), message)
        return MatMul(
            offset=self.registers.offset,
            name=self.registers.op,
            ifm=ifm,
            ifm2=ifm2,
            ofm=ofm,
            scale=fields.ofm_scale(),
            activation=fields.activation(ofm),
            block=fields.block(),
            accumulator_bits=fields.accumulator_bits(),
            accesses=fields.accesses(ofm, ("IFM", ifm), ("IFM2", ifm2)),
            start=start,
        )

    def _pool(self, parameter: int) -> Op:
        fields, get = self.fields, self.registers.get
        if parameter not in self.dialect.pools:
            raise fields.malformed("POOL", parameter, "this NPU has no such pooling mode")
        mode = PoolMode(parameter)
        self.registers.op = f"POOL {mode.name}"
        kernel, _ = fields.kernel()
        upscale = fields.upscale()
        depth = get("IFM_DEPTH_M1") + 1
        name = self._pool_input(mode)
        ifm = fields.kernel_input(kernel, upscale, depth, name)
        start = fields.start() if mode in CONTINUED else None
        ofm = fields.ofm()
        expected = 1 if mode is PoolMode.REDUCE_SUM else depth
        if ofm.depth != expected:
            raise fields.unsupported("OFM_DEPTH_M1", ofm.depth - 1, f"an output depth of {expected} is expected")
        in_parts = start is not None or ofm.is_accumulators
        # NONE leaves the values that it read: the bias of a product of maps.
        if ofm.is_accumulators and mode not in (*CONTINUED, PoolMode.NONE):
            raise fields.unsupported("ACC_FORMAT", get("ACC_FORMAT"), "what this pool leaves in the accumulators")
        self._check_pool(mode, kernel, upscale, ifm, in_parts=in_parts)
        scaling = fields.pool_scaling(mode, kernel, ofm)
        if mode is PoolMode.ARGMAX_X and (scaling.channel_scales or scaling.scale != ARGMAX_SCALE or ofm.bits != 32):
            register = "OFM_PRECISION" if scaling.channel_scales or ofm.bits != 32 else "OFM_SCALE"
            raise fields.unsupported(register, get(register), "positions scaled or stored in another way")
        return Pool(
            offset=self.registers.offset,
            name=self.registers.op,
            mode=mode,
            ifm=ifm,
            ofm=ofm,
            kernel=kernel,
            upscale=upscale,
            hardware_divide=scaling.divide,
            channel_scales=scaling.channel_scales,
            scale=scaling.scale,
            activation=fields.activation(ofm),
            block=fields.block(),
            accesses=fields.accesses(
                ofm, (name, ifm), scales=scaling.channel_scales.streams if scaling.channel_scales else ()
            ),
            start=start,
        )

    def _pool_input(self, mode: PoolMode) -> str:
        """Return the input that a pool reads: IFM2 where the accumulators start with it, else IFM."""
        fields = self.fields
        source = fields.accumulator_source() if isinstance(fields, FieldsU85) else 0
        going_on = source == GOING_ON and mode in CONTINUED
        if not going_on and source != (FROM_IFM2 if mode is PoolMode.NONE else FROM_ZERO):
            value = self.registers.get("ACC_FORMAT")
            raise fields.unsupported("ACC_FORMAT", value, "what this pool's accumulators start with")
        return "IFM2" if source == FROM_IFM2 else "IFM"

    def _check_pool(self, mode: PoolMode, kernel: Kernel, upscale: Upscale, ifm: FeatureMap, *, in_parts: bool) -> None:
        """Refuse pools whose arithmetic is not established.

        A pool `in_parts` is one of several operations that share accumulators. Some of its windows may have nothing but
        padding, which adds nothing to what the other operations find there.
        """
        fields, get = self.fields, self.registers.get
        pointwise = mode in (PoolMode.REDUCE_SUM, PoolMode.NONE)
        if pointwise and not (kernel.is_point and upscale is Upscale.NONE):
            raise fields.kernel_fault(f"{mode.name} over positions")
        if ifm.bits == 64 and mode is not PoolMode.NONE:
            raise fields.unsupported("IFM_PRECISION", get("IFM_PRECISION"), "pooling of 64-bit inputs")
        if upscale is Upscale.ZEROS:
            raise fields.unsupported("IFM_UPSCALE", upscale, "pooling with zeros between elements")
        if kernel.dilation_y > 1 or kernel.dilation_x > 1:
            raise fields.unsupported("KERNEL_STRIDE", get("KERNEL_STRIDE"), "pooling with dilation")
        tall = max(kernel.top, kernel.bottom) >= kernel.height
        if not in_parts and (tall or max(kernel.left, kernel.right) >= kernel.width):
            sides = ("TOP", "BOTTOM") if tall else ("LEFT", "RIGHT")
            raise fields.padding_fault(FailureKind.UNSUPPORTED, sides, "pooling windows with padding alone")
        if mode is PoolMode.ARGMAX_Y:
            raise fields.unsupported("POOL", mode, "no compiled stream looks for positions along y")
        if mode is PoolMode.ARGMAX_X and (kernel.height > 1 or kernel.padded or upscale is not Upscale.NONE):
            raise fields.kernel_fault("positions in padded, enlarged or tall windows", but=("KERNEL_WIDTH_M1",))

    def _elementwise(self, parameter: int) -> Op:
        fields = self.fields
        if parameter not in self.dialect.elementwise:
            raise fields.malformed("ELEMENTWISE", parameter, "this NPU has no such elementwise mode")
        mode = ElementwiseMode(parameter)
        self.registers.op = f"ELEMENTWISE {mode.name}"
        if fields.upscale() is not Upscale.NONE:
            raise fields.unsupported("IFM_UPSCALE", fields.upscale(), "elementwise with upscaling")
        inputs = fields.operands(mode)
        ofm = fields.ofm()
        scales = fields.elementwise_scales(mode, inputs.bits)
        return Elementwise(
            offset=self.registers.offset,
            name=self.registers.op,
            mode=mode,
            operands=tuple(Operand(source, by) for source, by in zip(inputs.sources, scales.operands, strict=False)),
            ofm=ofm,
            scale=scales.result,
            negative_scale=scales.negative,
            activation=fields.activation(ofm),
            block=fields.block(),
            accesses=fields.accesses(ofm, *inputs.maps),
        )

    def _resize(self, parameter: int) -> Op:
        fields, get = self.fields, self.registers.get
        assert isinstance(fields, FieldsU85)
        if parameter not in (ResizeMode.BILINEAR, ResizeMode.NEAREST):
            raise fields.unsupported("RESIZE", parameter, "this mode of resizing is not established")
        mode = ResizeMode(parameter)
        self.registers.op = f"RESIZE {mode.name}"
        depth = get("IFM_DEPTH_M1") + 1
        ifm = fields.feature_map("IFM", get("KERNEL_HEIGHT_M1") + 1, get("KERNEL_WIDTH_M1") + 1, depth)
        ofm = fields.ofm()
        refused = {
            "IFM_DEPTH_M1": depth != ofm.depth,
            "IFM_PRECISION": ifm.bits > 16,
            "IFM_UPSCALE": fields.upscale() is not Upscale.NONE,
        }
        for register, wrong in refused.items():
            if wrong:
                raise fields.unsupported(register, get(register), "this input cannot be resized")
        return Resize(
            offset=self.registers.offset,
            name=self.registers.op,
            mode=mode,
            ifm=ifm,
            ofm=ofm,
            y=fields.resize_axis("Y"),
            x=fields.resize_axis("X"),
            scale=fields.ofm_scale(),
            activation=fields.activation(ofm),
            block=fields.block(),
            accesses=fields.accesses(ofm, ("IFM", ifm)),
        )

    def _dma(self, parameter: int) -> Op:
        fields = self.fields
        self.registers.op = "DMA"
        if parameter:
            raise fields.unsupported("DMA_START", parameter, "only channel and mode 0 are established")
        length = self.registers.get("DMA0_LEN")
        if not length:
            raise fields.unsupported("DMA0_LEN", length, "a transfer of nothing")
        op = fields.dma(length)
        accesses = []
        for register, side, write in (("DMA0_SRC", op.source, False), ("DMA0_DST", op.destination, True)):
            begin, end = _reach(op, side, indexed=op.index is not None and op.index.of_source != write)
            size = length * op.sizes[0] * op.sizes[1]
            accesses.append(Access(register, side.region, begin, end, write, min(size, end - begin)))
        if op.index is not None:
            size = INDEX_BYTES * op.sizes[0] * op.sizes[1]
            last = (op.sizes[1] - 1) * op.index.skip
            begin, end = op.index.base + min(0, last), op.index.base + size + max(0, last)
            accesses.append(Access("DMA0_IDX", op.index.region, begin, end, False, size))
        return replace(op, accesses=tuple(accesses))


def initial_sums(start: FeatureMap | None) -> tuple[tuple[str, FeatureMap], ...]:
    """Return the initial values of sums as an input, with the name of its registers; nothing for zero."""
    return () if start is None else (("IFM2", start),)


def _with_target(jump: Instruction, targets: Mapping[int, int]) -> Instruction:
    """Return an operation as it is, and a branch with its target's instruction number instead of its offset."""
    if not isinstance(jump, Branch):
        return jump
    if jump.target not in targets:
        raise Fault.of(jump, FailureKind.PARSE, "BRANCH", jump.target, "no command before STOP has this offset")
    return replace(jump, target=targets[jump.target])


def _reach(op: Dma, side: DmaSide, *, indexed: bool) -> tuple[int, int]:
    """Return the first byte and the byte after the last one that one side of a DMA can touch."""
    assert op.index is not None or not indexed
    rows = op.index.maximum if indexed and op.index is not None else op.sizes[0] - 1
    steps = (rows * side.strides[0], (op.sizes[1] - 1) * side.strides[1])
    return side.base + sum(s for s in steps if s < 0), side.base + sum(s for s in steps if s > 0) + op.length


class PoolRepeater:
    """The last pool decoded, and the registers that it depends on.

    On Ethos-U55 the compiler moves and transposes data with one pool per slice, up to thousands of them. The registers
    that decoding reads define a pool. So if only base addresses among them were written since, the next pool is the
    previous one at other addresses; copying it takes a third of the time of decoding.
    """

    def __init__(self, registers: RegisterFile) -> None:
        self.registers = registers
        self._last: tuple[int, int, Pool] | None = None
        self._needs: set[str] = set()

    def forget(self) -> None:
        """Forget the last pool, so that the next operation is decoded."""
        self._last = None
        self._begin()

    def repeat(self, code: int, parameter: int) -> Op | None:
        """Return the last pool at its new addresses, or None if the operation must be decoded."""
        registers = self.registers
        if self._last is None or self._last[:2] != (code, parameter):
            self._begin()
            return None
        last = self._last[2]
        sources, targets = last.accesses
        changed = registers.written & self._needs
        if not changed <= {sources.register, targets.register}:
            self._begin()
            return None
        ifm, source = _move(last.ifm, sources, registers)
        ofm, target = _move(last.ofm, targets, registers)
        op = last.move_to(registers.offset, ifm, ofm, (source, target))
        registers.op = op.name
        registers.written.clear()
        self._last = (code, parameter, op)
        return op

    def remember(self, code: int, parameter: int, op: Op) -> None:
        """Remember `op`, just decoded after `repeat` returned None, with the registers read since then."""
        movable = (
            isinstance(op, Pool)
            and [access.write for access in op.accesses] == [False, True]
            and op.channel_scales is None
            and op.start is None
            and op.ifm.one_tile
            and op.ofm.one_tile
        )
        self._last = (code, parameter, op) if movable and isinstance(op, Pool) else None
        self._needs = set(self.registers.read)

    def _begin(self) -> None:
        self.registers.written.clear()
        self.registers.read.clear()


def _move(source: FeatureMap, access: Access, registers: RegisterFile) -> tuple[FeatureMap, Access]:
    """Return a map of one tile, and its access, at the address in its base register."""
    base = registers.get(access.register)
    by = base - source.bases[0]
    if not by:
        return source, access
    moved = source.move_to(base)
    return moved, Access(access.register, access.region, access.begin + by, access.end + by, access.write, access.size)
