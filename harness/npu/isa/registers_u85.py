"""Registers of Ethos-U85, as differences to Ethos-U55.

Source: Vela's disassembly, which names fields and their values, and Vela's streams, which show their positions.
"""

from __future__ import annotations

from ethos_hil.harness.npu.isa.registers import (
    ADDRESS,
    LENGTH,
    Dialect,
    ElementwiseMode,
    Opcode,
    PoolMode,
    Register,
    by_code,
)
from ethos_hil.harness.npu.isa.registers_u55 import LONG as U55_LONG
from ethos_hil.harness.npu.isa.registers_u55 import SHORT as U55_SHORT

_SCALE = 0xE7FF << 32 | LENGTH  # multiplier in the payload; above it shift 0-5, double rounding 6-10, rounding 13-15
_STEP = 0xFFFF << 32 | 0x07FF07FF  # one step and a block's step: whole parts above the payload, remainders in it
_PRECISION = 0xC0CF  # type 0-3, format 6-7, storage 14-15
_GONE = {
    "IFM_IB_END",
    "IFM2_IB_START",
    "IFM2_SCALAR",
    "AB_START",
    "PARALLEL_MODE",
    "OPA_SCALE",
    "OPB_SCALE",
    "DMA0_SKIP0",
    "DMA0_SKIP1",
}

SHORT = {code: register for code, register in U55_SHORT.items() if register.name not in _GONE} | by_code(
    Register("IFM_PRECISION", 0x105, _PRECISION),
    Register("IFM_BROADCAST", 0x108, 0xF),  # H 0, W 1, C 2, scalar 3
    Register("OFM_PRECISION", 0x114, 0xFFC7),  # as U55 to 8; reverse 9-10, transpose 11-13, storage 14-15
    Register("ACC_FORMAT", 0x124, 0x773),  # format 0-1, input 4-5, output disabled 6, micro-block 8-10
    Register("ACTIVATION", 0x125, 0x10FF),  # function 0-4, table 5-7, no clamp 12
    Register("RESIZE_X_SCALE_N_M1", 0x12A, 0x7FF),
    Register("RESIZE_Y_SCALE_N_M1", 0x12B, 0x7FF),
    Register("RESIZE_X_OFFSET", 0x12C, 0xFFF),
    Register("RESIZE_Y_OFFSET", 0x12D, 0xFFF),
    Register("WEIGHT_FORMAT", 0x12E, 0x11),  # fast 0, sparse 4
    Register("BLOCKDEP", 0x12F, 0x7),
    Register("DMA0_SRC_REGION", 0x130, 0xFFF),  # region 0-7, internal 8, stride mode 9-10, indexed 11
    Register("DMA0_DST_REGION", 0x131, 0x9FF),
    Register("DMA0_IDX_REGION", 0x134, 0x7),
    Register("IFM2_BROADCAST", 0x180, 0xF),
    Register("IFM2_PRECISION", 0x185, _PRECISION),
)

LONG = {code: register for code, register in U55_LONG.items() if register.name not in _GONE} | by_code(
    Register("OFM_SCALE", 0x024, _SCALE),
    Register("IFM_SCALE", 0x025, _SCALE),
    Register("IFM2_SCALE", 0x026, _SCALE),
    Register("OP_SCALAR", 0x027, LENGTH),
    Register("DMA0_SRC_STRIDE0", 0x033, ADDRESS, signed=True),
    Register("DMA0_SRC_STRIDE1", 0x034, ADDRESS, signed=True),
    Register("DMA0_DST_STRIDE0", 0x035, ADDRESS, signed=True),
    Register("DMA0_DST_STRIDE1", 0x036, ADDRESS, signed=True),
    Register("DMA0_IDX", 0x037, ADDRESS),
    Register("DMA0_IDX_MAX", 0x038, LENGTH),
    Register("DMA0_IDX_SKIP1", 0x039, ADDRESS, signed=True),
    Register("WEIGHT1_BASE", 0x090, ADDRESS),
    Register("WEIGHT1_LENGTH", 0x091, LENGTH),
    Register("WEIGHT2_BASE", 0x092, ADDRESS),
    Register("WEIGHT2_LENGTH", 0x093, LENGTH),
    Register("WEIGHT3_BASE", 0x094, ADDRESS),
    Register("WEIGHT3_LENGTH", 0x095, LENGTH),
    Register("RESIZE_X_STEP", 0x096, _STEP),
    Register("RESIZE_Y_STEP", 0x097, _STEP),
)

BRANCH = 0x100  # the one operation with a payload

U85 = Dialect(SHORT, LONG, frozenset(Opcode) | {BRANCH}, frozenset(PoolMode), frozenset(ElementwiseMode))
