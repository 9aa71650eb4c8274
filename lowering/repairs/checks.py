"""Checks of what Vela compiled: its outputs, the padding of its windows, and its transfers to internal memory."""

from __future__ import annotations

import math

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.formats.command_stream import DMA_START, WIDE, operations
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator, TosaDraft
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.vela.compiler import VelaOutput

_BYTES = {"BOOL": 1, "INT8": 1, "INT16": 2, "INT32": 4, "INT48": 8}


def missing_outputs(output: VelaOutput) -> str | None:
    """Return what is wrong with the outputs of a compiled program, or None."""
    wanted, outputs = TosaGraph.parse(output.tosa).outputs, output.parsed.outputs
    if len(wanted) != len(outputs):
        return f"it has {len(outputs)} of the {len(wanted)} outputs"
    for number, (tensor, place) in enumerate(zip(wanted, outputs, strict=True)):
        size = math.prod(tensor.shape) * _BYTES.get(tensor.dtype, 1)
        if place.size != size:
            return f"its output {number} has {place.size} bytes instead of {size}"
    return None


def outputs_are_missing(output: VelaOutput) -> bool:
    """Return whether a compiled program has other outputs than its TOSA program."""
    return missing_outputs(output) is not None


# The check that a compiled stream pads no window further than the window reaches.
#
# Vela works out the padding of an operation from its shapes. Where it has given an operation a shape that is not its
# own, there are positions whose window lies in padding alone. Few programs of TOSA ask for that; so this shows
# miscompilations, also those that have no name yet.
#
# Vela splits a padded pool or convolution with a stride above 3 into operations of one tap each, which share
# accumulators (Ethos-U85). The padding of these is that of the whole, and they are left out here. A transposed
# convolution with a larger stride than its kernel, or with more output padding than padding, has outputs that no input
# reaches, and so has a convolution whose padding is as large as its kernel (nn.Conv2d(8, 8, 1, padding=1)); Vela
# computes them from padding alone. A program that has one is not checked.
#
# Codes of registers and operations, the same on all families; source: the register description in the vela wheel.
_PADS = {0x100: "top", 0x101: "left", 0x102: "right", 0x103: "bottom"}
_KERNEL_WIDTH, _KERNEL_HEIGHT, _ACC_FORMAT = 0x120, 0x121, 0x124
_SHARED = 0x70
"""In ACC_FORMAT of the Ethos-U85: the accumulators are kept from the last operation, or for the next one."""
_CONVOLUTION, _DEPTHWISE, _POOL = 0x002, 0x003, 0x005
_WINDOWS = (_CONVOLUTION, _DEPTHWISE, _POOL)
_EXTENTS = {0x100: _KERNEL_HEIGHT, 0x103: _KERNEL_HEIGHT, 0x101: _KERNEL_WIDTH, 0x102: _KERNEL_WIDTH}


@dataclass(frozen=True)
class ExcessPadding:
    """An operation whose windows on one side lie in padding alone.

    Attributes:
        offset: byte offset of the operation in the register command stream.
        side: top, left, right or bottom.
        padding: positions that are padded there.
        extent: positions that the window reaches in that direction.
    """

    offset: int
    side: str
    padding: int
    extent: int


def excess_padding(blob: VelaBlob, tosa: bytes) -> tuple[ExcessPadding, ...]:
    """Return the operations of a delegate that are padded further than their windows reach, in stream order.

    Args:
        blob: the delegate.
        tosa: the program that it was compiled from.
    """
    return () if _has_unreached_outputs(tosa) else scan_padding(blob.command_stream)


def _has_unreached_outputs(tosa: bytes) -> bool:
    for block in TosaDraft(tosa).blocks:
        for operator in block.operators:
            if operator.op == "TRANSPOSE_CONV2D":
                attribute = operator.old_attribute
                stride, added = attribute.StrideAsNumpy().tolist(), attribute.OutPadAsNumpy().tolist()
                _, height, width, _ = block.tensors[operator.inputs[1]].shape
                if stride[0] > height or stride[1] > width or max(added) > 0:
                    return True
            elif operator.op in _KERNELS and _is_padded_beyond_its_kernel(block, operator):
                return True
    return False


_KERNELS = {"CONV2D": slice(1, 3), "DEPTHWISE_CONV2D": slice(0, 2), "CONV3D": slice(1, 4)}
"""Where the shape of their weights has that of the kernel."""


def _is_padded_beyond_its_kernel(block: DraftBlock, operator: DraftOperator) -> bool:
    attribute = operator.old_attribute
    kernel = block.tensors[operator.inputs[1]].shape[_KERNELS[operator.op]]
    reach = [(size - 1) * step for size, step in zip(kernel, attribute.DilationAsNumpy().tolist(), strict=True)]
    pads = attribute.PadAsNumpy().tolist()
    return any(pad > reach[number // 2] for number, pad in enumerate(pads))


def scan_padding(stream: bytes) -> tuple[ExcessPadding, ...]:
    """Return the operations of a stream (whole little-endian words) that are padded further than windows reach."""
    operators = []
    for command, registers in operations(stream, (*_PADS, _KERNEL_WIDTH, _KERNEL_HEIGHT, _ACC_FORMAT)):
        if command.code in _WINDOWS and not registers[_ACC_FORMAT] & _SHARED:
            for pad, extent in _EXTENTS.items():
                if registers[pad] > registers[extent]:
                    operators.append(ExcessPadding(command.offset, _PADS[pad], registers[pad], registers[extent] + 1))
    return tuple(operators)


# The check that a command stream's DMA transfers stay inside the NPU's internal memory.
#
# Vela 5.1 places the look-up table of an operation that it fuses with a transposition at 0x4000 of SHRAM, which an
# Ethos-U55-32 or -64 does not have. It prints "Address out of bounds" and still reports success, so the stream itself
# is checked. Sources: the register description in the vela wheel (ethosu/vela/ethos_u55_regs), and the config word in
# the driver payload, whose bits 8-15 are the kilobytes of SHRAM.

_DESTINATION_REGION = 0x131  # a register of 16 bits; bit 8 chooses the internal memory
_DESTINATION, _LENGTH = WIDE | 0x031, WIDE | 0x032
_INTERNAL = 1 << 8


@dataclass(frozen=True)
class Overrun:
    """A transfer that ends beyond SHRAM.

    Attributes:
        offset: byte offset of the DMA_START in the register command stream.
        begin, end: bytes of internal memory it would write.
        shram: bytes of SHRAM.
    """

    offset: int
    begin: int
    end: int
    shram: int


def overruns(blob: VelaBlob) -> tuple[Overrun, ...]:
    """Return a delegate's transfers that leave SHRAM, in stream order; none where the NPU has no SHRAM."""
    if not EthosU.from_config_word(blob.config_word).family.has_shram:
        return ()
    return scan(blob.command_stream, (blob.config_word >> 8 & 0xFF) * 1024)


def scan(stream: bytes, shram: int) -> tuple[Overrun, ...]:
    """Return the transfers of a stream (whole little-endian words) that end beyond `shram` bytes of SHRAM."""
    operators = []
    for command, registers in operations(stream, (_DESTINATION_REGION, _DESTINATION, _LENGTH)):
        if command.code == DMA_START and registers[_DESTINATION_REGION] & _INTERNAL:
            begin = registers[_DESTINATION]
            end = begin + registers[_LENGTH]
            if end > shram:
                operators.append(Overrun(command.offset, begin, end, shram))
    return tuple(operators)
