"""The check that a compiled stream pads no window further than the window reaches.

Vela works out the padding of an operation from its shapes. Where it has given an operation a shape that is not its own,
there are positions whose window lies in padding alone. No convolution or pool of TOSA has such positions on its edge
beyond the window's extent; so this shows miscompilations, also those that have no name yet.

Vela splits a padded pool or convolution with a stride above 3 into operations of one tap each, which share accumulators
(Ethos-U85). The padding of these is that of the whole, and they are left out here. A transposed convolution with a
larger stride than its kernel, or with more output padding than padding, has outputs that no input reaches; Vela
computes them from padding alone. A program that has one is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from tosa.TransposeConv2dAttribute import TransposeConv2dAttribute

from ethos_hil.lowering.formats.command_stream import operations
from ethos_hil.lowering.formats.tosa_draft import TosaDraft
from ethos_hil.lowering.formats.vela_blob import VelaBlob

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
        for each in block.operators:
            if each.op == "TRANSPOSE_CONV2D":
                attribute = each.read(TransposeConv2dAttribute)
                stride, added = attribute.StrideAsNumpy().tolist(), attribute.OutPadAsNumpy().tolist()
                _, height, width, _ = block.tensors[each.inputs[1]].shape
                if stride[0] > height or stride[1] > width or max(added) > 0:
                    return True
    return False


def scan_padding(stream: bytes) -> tuple[ExcessPadding, ...]:
    """Return the operations of a stream (whole little-endian words) that are padded further than windows reach."""
    found = []
    for command, registers in operations(stream, (*_PADS, _KERNEL_WIDTH, _KERNEL_HEIGHT, _ACC_FORMAT)):
        if command.code in _WINDOWS and not registers[_ACC_FORMAT] & _SHARED:
            for pad, extent in _EXTENTS.items():
                if registers[pad] > registers[extent]:
                    found.append(ExcessPadding(command.offset, _PADS[pad], registers[pad], registers[extent] + 1))
    return tuple(found)
