"""Registers of Ethos-U55 and U65. They share one dialect; the second core of an ethos-u65-512 adds four registers."""

from __future__ import annotations

from ethos_hil.harness.npu.isa.registers import (
    ADDRESS,
    FULL,
    LENGTH,
    SCALE,
    Dialect,
    ElementwiseMode,
    Opcode,
    PoolMode,
    Register,
    by_code,
)

SHORT = by_code(
    Register("IFM_PAD_TOP", 0x100, FULL),
    Register("IFM_PAD_LEFT", 0x101, FULL),
    Register("IFM_PAD_RIGHT", 0x102, FULL),
    Register("IFM_PAD_BOTTOM", 0x103, FULL),
    Register("IFM_DEPTH_M1", 0x104, FULL),
    Register("IFM_PRECISION", 0x105, 0xC3CF),  # type 0-3, format 6-7, operand scaling 8-9, rounding 14-15
    Register("IFM_UPSCALE", 0x107, 0x3),
    Register("IFM_ZERO_POINT", 0x109, FULL),
    Register("IFM_WIDTH0_M1", 0x10A, FULL),
    Register("IFM_HEIGHT0_M1", 0x10B, FULL),
    Register("IFM_HEIGHT1_M1", 0x10C, FULL),
    Register("IFM_IB_END", 0x10D, FULL),
    Register("IFM_REGION", 0x10F, 0x7),
    Register("OFM_WIDTH_M1", 0x111, FULL),
    Register("OFM_HEIGHT_M1", 0x112, FULL),
    Register("OFM_DEPTH_M1", 0x113, FULL),
    Register("OFM_PRECISION", 0x114, 0xC1C7),  # type 0-2, format 6-7, global scale 8, rounding 14-15
    Register("OFM_BLK_WIDTH_M1", 0x115, FULL),
    Register("OFM_BLK_HEIGHT_M1", 0x116, FULL),
    Register("OFM_BLK_DEPTH_M1", 0x117, FULL),
    Register("OFM_ZERO_POINT", 0x118, FULL),
    Register("OFM_WIDTH0_M1", 0x11A, FULL),
    Register("OFM_HEIGHT0_M1", 0x11B, FULL),
    Register("OFM_HEIGHT1_M1", 0x11C, FULL),
    Register("OFM_REGION", 0x11F, 0x7),
    Register("KERNEL_WIDTH_M1", 0x120, FULL),
    Register("KERNEL_HEIGHT_M1", 0x121, FULL),
    Register("KERNEL_STRIDE", 0x122, 0x27F),
    Register("PARALLEL_MODE", 0x123, 0x1),
    Register("ACC_FORMAT", 0x124, 0x3),
    Register("ACTIVATION", 0x125, FULL),  # function 0-11, clip range 12-15
    Register("ACTIVATION_MIN", 0x126, FULL),
    Register("ACTIVATION_MAX", 0x127, FULL),
    Register("WEIGHT_REGION", 0x128, 0x7),
    Register("SCALE_REGION", 0x129, 0x7),
    Register("AB_START", 0x12D, FULL),
    Register("BLOCKDEP", 0x12F, 0x3),
    Register("DMA0_SRC_REGION", 0x130, 0x7FF),  # region 0-7, internal 8, stride mode 9-10
    Register("DMA0_DST_REGION", 0x131, 0x7FF),
    Register("DMA0_SIZE0", 0x132, FULL),
    Register("DMA0_SIZE1", 0x133, FULL),
    Register("IFM2_BROADCAST", 0x180, 0xC7),  # H 0, W 1, C 2, operand order 6, scalar 7
    Register("IFM2_SCALAR", 0x181, FULL),
    Register("IFM2_PRECISION", 0x185, 0xCF),
    Register("IFM2_ZERO_POINT", 0x189, FULL),
    Register("IFM2_WIDTH0_M1", 0x18A, FULL),
    Register("IFM2_HEIGHT0_M1", 0x18B, FULL),
    Register("IFM2_HEIGHT1_M1", 0x18C, FULL),
    Register("IFM2_IB_START", 0x18D, FULL),
    Register("IFM2_REGION", 0x18F, 0x7),
)

LONG = by_code(
    Register("IFM_BASE0", 0x000, ADDRESS),
    Register("IFM_BASE1", 0x001, ADDRESS),
    Register("IFM_BASE2", 0x002, ADDRESS),
    Register("IFM_BASE3", 0x003, ADDRESS),
    Register("IFM_STRIDE_X", 0x004, ADDRESS, signed=True),
    Register("IFM_STRIDE_Y", 0x005, ADDRESS, signed=True),
    Register("IFM_STRIDE_C", 0x006, ADDRESS, signed=True),
    Register("OFM_BASE0", 0x010, ADDRESS),
    Register("OFM_BASE1", 0x011, ADDRESS),
    Register("OFM_BASE2", 0x012, ADDRESS),
    Register("OFM_BASE3", 0x013, ADDRESS),
    Register("OFM_STRIDE_X", 0x014, ADDRESS, signed=True),
    Register("OFM_STRIDE_Y", 0x015, ADDRESS, signed=True),
    Register("OFM_STRIDE_C", 0x016, ADDRESS, signed=True),
    Register("WEIGHT_BASE", 0x020, ADDRESS),
    Register("WEIGHT_LENGTH", 0x021, LENGTH),
    Register("SCALE_BASE", 0x022, ADDRESS),
    Register("SCALE_LENGTH", 0x023, LENGTH),
    Register("OFM_SCALE", 0x024, SCALE),
    Register("OPA_SCALE", 0x025, SCALE),
    Register("OPB_SCALE", 0x026, LENGTH),
    Register("DMA0_SRC", 0x030, ADDRESS),
    Register("DMA0_DST", 0x031, ADDRESS),
    Register("DMA0_LEN", 0x032, ADDRESS),
    Register("DMA0_SKIP0", 0x033, ADDRESS, signed=True),
    Register("DMA0_SKIP1", 0x034, ADDRESS, signed=True),
    Register("IFM2_BASE0", 0x080, ADDRESS),
    Register("IFM2_BASE1", 0x081, ADDRESS),
    Register("IFM2_BASE2", 0x082, ADDRESS),
    Register("IFM2_BASE3", 0x083, ADDRESS),
    Register("IFM2_STRIDE_X", 0x084, ADDRESS, signed=True),
    Register("IFM2_STRIDE_Y", 0x085, ADDRESS, signed=True),
    Register("IFM2_STRIDE_C", 0x086, ADDRESS, signed=True),
)

SECOND_CORE = by_code(
    Register("WEIGHT1_BASE", 0x090, ADDRESS),
    Register("WEIGHT1_LENGTH", 0x091, LENGTH),
    Register("SCALE1_BASE", 0x092, ADDRESS),
    Register("SCALE1_LENGTH", 0x093, LENGTH),
)

_OPERATIONS = frozenset(Opcode) - {Opcode.RESIZE}
_POOLS = frozenset({PoolMode.MAX, PoolMode.AVERAGE, PoolMode.REDUCE_SUM})
_ELEMENTWISE = frozenset(mode for mode in ElementwiseMode if mode <= ElementwiseMode.SHL)

U55 = Dialect(SHORT, LONG, _OPERATIONS, _POOLS, _ELEMENTWISE)
U65 = Dialect(SHORT, LONG | SECOND_CORE, _OPERATIONS, _POOLS, _ELEMENTWISE)
