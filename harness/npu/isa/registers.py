"""Names and codes of the Ethos-U command stream, as far as its generations share them.

A command word has its code in bits 0-9 and the size of its payload in bits 14-15. A command without payload ("short")
has its value in bits 16-31; codes below 0x100 are operations, the others registers. A command with one 32-bit payload
word ("long") sets a register, whose value is bits 16-31 above the payload; only BRANCH is an operation. `registers_u55`
(and U65) and `registers_u85` list the registers of each generation. Codes are those of the description that comes with
Vela (ethosu/vela/ethos_u55_regs), and for Ethos-U85 those of Vela's disassembly; tests compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ethos_hil.base.dataclasses import dataclass

PAYLOAD_SHIFT = 14
FIRST_REGISTER = 0x100  # short codes below are operations


class Opcode(IntEnum):
    """Short commands that are operations."""

    STOP = 0x000
    IRQ = 0x001
    CONV = 0x002
    DEPTHWISE = 0x003
    POOL = 0x005
    ELEMENTWISE = 0x006
    RESIZE = 0x007
    DMA_START = 0x010
    DMA_WAIT = 0x011
    KERNEL_WAIT = 0x012
    PMU_MASK = 0x013


class PoolMode(IntEnum):
    """Parameter of POOL; modes from SUM on exist on Ethos-U85 only."""

    MAX = 0
    AVERAGE = 1
    REDUCE_SUM = 2
    SUM = 3
    NONE = 4
    MIN = 5
    ARGMAX_X = 6
    ARGMAX_Y = 7


class ElementwiseMode(IntEnum):
    """Parameter of ELEMENTWISE; modes from LSR on exist on Ethos-U85 only."""

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
    LSR = 10
    DIV = 11
    CMP_EQ = 16
    CMP_NE = 17
    CMP_GE = 18
    CMP_GT = 19
    AND = 33
    OR = 34
    XOR = 35
    NOT = 36
    AND_NOT = 42


@dataclass(frozen=True)
class Register:
    """One register: its name, code, and the bits of its value that have a known meaning.

    A stream that sets another bit is refused.
    """

    name: str
    code: int
    valid: int
    signed: bool = False


@dataclass(frozen=True)
class Dialect:
    """The command set of a generation: registers by code, operations, and modes of pools and elementwise operations."""

    short: Mapping[int, Register]
    long: Mapping[int, Register]
    operations: frozenset[int]
    pools: frozenset[int]
    elementwise: frozenset[int]


# Masks of values: a whole short register, an address, a length, a multiplier with 6 bits of shift above it.
FULL = 0xFFFF
ADDRESS = (1 << 40) - 1
LENGTH = (1 << 32) - 1
SCALE = (1 << 38) - 1


def by_code(*registers: Register) -> dict[int, Register]:
    """Return registers by code."""
    return {register.code: register for register in registers}
