"""Names, codes and widths of the Ethos-U55 command stream.

A command word has its code in bits 0-9 and the size of its payload in bits 14-15. Without payload ("short"), bits
16-31 are the value, and codes below 0x100 are operations, the others registers. With one 32-bit payload word ("long"),
every code is a register whose value is bits 16-31 above the payload. A test checks all of this against the
description that comes with Vela (ethosu/vela/ethos_u55_regs). `valid` masks the bits with a known meaning: a stream
that sets another one is not understood, so it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

CODE_MASK = 0x3FF
PAYLOAD_SHIFT = 14
FIRST_REGISTER = 0x100  # short codes below are operations


class Operation(IntEnum):
    """Short commands that do something."""

    STOP = 0x000
    IRQ = 0x001
    CONV = 0x002
    DEPTHWISE = 0x003
    POOL = 0x005
    ELEMENTWISE = 0x006
    DMA_START = 0x010
    DMA_WAIT = 0x011
    KERNEL_WAIT = 0x012
    PMU_MASK = 0x013


class PoolMode(IntEnum):
    """Parameter of POOL."""

    MAX = 0
    AVERAGE = 1
    REDUCE_SUM = 2


class ElementwiseMode(IntEnum):
    """Parameter of ELEMENTWISE."""

    MUL = 0
    ADD = 1
    SUB = 2
    MIN = 3
    MAX = 4
    LRELU = 5
    ABS = 6
    CLZ = 7
    SHR = 8
    SHL = 9


@dataclass(frozen=True)
class Register:
    """One register: its name, code, and the bits of its value that mean something."""

    name: str
    code: int
    valid: int
    signed: bool = False


_FULL = 0xFFFF
_ADDRESS = (1 << 40) - 1
_LENGTH = (1 << 32) - 1
_SCALE = (1 << 38) - 1  # multiplier in the payload, 6 bits of shift above it

SHORT = {
    r.code: r
    for r in (
        Register("IFM_PAD_TOP", 0x100, _FULL),
        Register("IFM_PAD_LEFT", 0x101, _FULL),
        Register("IFM_PAD_RIGHT", 0x102, _FULL),
        Register("IFM_PAD_BOTTOM", 0x103, _FULL),
        Register("IFM_DEPTH_M1", 0x104, _FULL),
        Register("IFM_PRECISION", 0x105, 0xC3CF),  # type 0-3, format 6-7, operand scaling 8-9, rounding 14-15
        Register("IFM_UPSCALE", 0x107, 0x3),
        Register("IFM_ZERO_POINT", 0x109, _FULL),
        Register("IFM_WIDTH0_M1", 0x10A, _FULL),
        Register("IFM_HEIGHT0_M1", 0x10B, _FULL),
        Register("IFM_HEIGHT1_M1", 0x10C, _FULL),
        Register("IFM_IB_END", 0x10D, _FULL),
        Register("IFM_REGION", 0x10F, 0x7),
        Register("OFM_WIDTH_M1", 0x111, _FULL),
        Register("OFM_HEIGHT_M1", 0x112, _FULL),
        Register("OFM_DEPTH_M1", 0x113, _FULL),
        Register("OFM_PRECISION", 0x114, 0xC1C7),  # type 0-2, format 6-7, global scale 8, rounding 14-15
        Register("OFM_BLK_WIDTH_M1", 0x115, _FULL),
        Register("OFM_BLK_HEIGHT_M1", 0x116, _FULL),
        Register("OFM_BLK_DEPTH_M1", 0x117, _FULL),
        Register("OFM_ZERO_POINT", 0x118, _FULL),
        Register("OFM_WIDTH0_M1", 0x11A, _FULL),
        Register("OFM_HEIGHT0_M1", 0x11B, _FULL),
        Register("OFM_HEIGHT1_M1", 0x11C, _FULL),
        Register("OFM_REGION", 0x11F, 0x7),
        Register("KERNEL_WIDTH_M1", 0x120, _FULL),
        Register("KERNEL_HEIGHT_M1", 0x121, _FULL),
        Register("KERNEL_STRIDE", 0x122, 0x27F),
        Register("PARALLEL_MODE", 0x123, 0x1),
        Register("ACC_FORMAT", 0x124, 0x3),
        Register("ACTIVATION", 0x125, _FULL),  # function 0-11, clip range 12-15
        Register("ACTIVATION_MIN", 0x126, _FULL),
        Register("ACTIVATION_MAX", 0x127, _FULL),
        Register("WEIGHT_REGION", 0x128, 0x7),
        Register("SCALE_REGION", 0x129, 0x7),
        Register("AB_START", 0x12D, _FULL),
        Register("BLOCKDEP", 0x12F, 0x3),
        Register("DMA0_SRC_REGION", 0x130, 0x7FF),  # region 0-7, internal 8, stride mode 9-10
        Register("DMA0_DST_REGION", 0x131, 0x7FF),
        Register("DMA0_SIZE0", 0x132, _FULL),
        Register("DMA0_SIZE1", 0x133, _FULL),
        Register("IFM2_BROADCAST", 0x180, 0xC7),  # H 0, W 1, C 2, operand order 6, scalar 7
        Register("IFM2_SCALAR", 0x181, _FULL),
        Register("IFM2_PRECISION", 0x185, 0xCF),
        Register("IFM2_ZERO_POINT", 0x189, _FULL),
        Register("IFM2_WIDTH0_M1", 0x18A, _FULL),
        Register("IFM2_HEIGHT0_M1", 0x18B, _FULL),
        Register("IFM2_HEIGHT1_M1", 0x18C, _FULL),
        Register("IFM2_IB_START", 0x18D, _FULL),
        Register("IFM2_REGION", 0x18F, 0x7),
    )
}

LONG = {
    r.code: r
    for r in (
        Register("IFM_BASE0", 0x000, _ADDRESS),
        Register("IFM_BASE1", 0x001, _ADDRESS),
        Register("IFM_BASE2", 0x002, _ADDRESS),
        Register("IFM_BASE3", 0x003, _ADDRESS),
        Register("IFM_STRIDE_X", 0x004, _ADDRESS, signed=True),
        Register("IFM_STRIDE_Y", 0x005, _ADDRESS, signed=True),
        Register("IFM_STRIDE_C", 0x006, _ADDRESS, signed=True),
        Register("OFM_BASE0", 0x010, _ADDRESS),
        Register("OFM_BASE1", 0x011, _ADDRESS),
        Register("OFM_BASE2", 0x012, _ADDRESS),
        Register("OFM_BASE3", 0x013, _ADDRESS),
        Register("OFM_STRIDE_X", 0x014, _ADDRESS, signed=True),
        Register("OFM_STRIDE_Y", 0x015, _ADDRESS, signed=True),
        Register("OFM_STRIDE_C", 0x016, _ADDRESS, signed=True),
        Register("WEIGHT_BASE", 0x020, _ADDRESS),
        Register("WEIGHT_LENGTH", 0x021, _LENGTH),
        Register("SCALE_BASE", 0x022, _ADDRESS),
        Register("SCALE_LENGTH", 0x023, _LENGTH),
        Register("OFM_SCALE", 0x024, _SCALE),
        Register("OPA_SCALE", 0x025, _SCALE),
        Register("OPB_SCALE", 0x026, _LENGTH),
        Register("DMA0_SRC", 0x030, _ADDRESS),
        Register("DMA0_DST", 0x031, _ADDRESS),
        Register("DMA0_LEN", 0x032, _ADDRESS),
        Register("DMA0_SKIP0", 0x033, _ADDRESS, signed=True),
        Register("DMA0_SKIP1", 0x034, _ADDRESS, signed=True),
        Register("IFM2_BASE0", 0x080, _ADDRESS),
        Register("IFM2_BASE1", 0x081, _ADDRESS),
        Register("IFM2_BASE2", 0x082, _ADDRESS),
        Register("IFM2_BASE3", 0x083, _ADDRESS),
        Register("IFM2_STRIDE_X", 0x084, _ADDRESS, signed=True),
        Register("IFM2_STRIDE_Y", 0x085, _ADDRESS, signed=True),
        Register("IFM2_STRIDE_C", 0x086, _ADDRESS, signed=True),
    )
}
