"""Decode and carry out the load or store that a watchpoint stopped before it happened.

QEMU's gdbstub stops before the access and has no way to say "done, go on". So the host does what the instruction would
have done: it moves the data, updates the base register, advances the program counter and, inside an IT block, the
execution state. It knows only what compilers emit for device registers: LDR and STR of words, halfwords and bytes,
signed or not, and LDRD and STRD, in all their addressing modes. It refuses anything else.

Instruction semantics: Armv8-M Architecture Reference Manual, C2.4 (the encodings T1 to T5).
"""

from __future__ import annotations

import enum
import functools
from typing import Protocol

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.virtual.qemu_control import PC, SP, XPSR

_MASK = 0xFFFFFFFF


class UnsupportedAccess(Exception):
    """An instruction that this module does not carry out. The message names it."""


class Bus(Protocol):
    """The target of the access."""

    def load(self, address: int, size: int) -> int:
        """Return `size` (1, 2 or 4) bytes at `address`, zero-extended."""

    def store(self, address: int, size: int, value: int) -> None:
        """Store the low `size` bytes of `value`, which is below 256**size."""


class Writeback(enum.Enum):
    """How the base register changes."""

    NONE = "none"
    PRE = "pre"
    """The address and the new base are base plus displacement."""
    POST = "post"
    """The address is the base; the new base is base plus displacement."""


@dataclass(frozen=True)
class InterceptedAccess:
    """A decoded load or store.

    Attributes:
        length: bytes of the instruction.
        load: true for a load, false for a store.
        size: bytes of each element: 1, 2 or 4.
        signed: whether a load sign-extends.
        registers: numbers of the data registers, one, or two for LDRD and STRD.
        base: number of the base register.
        index: number of the index register, or None.
        shift: left shift of the index.
        displacement: bytes, signed.
        writeback: how the base register changes.
    """

    length: int
    load: bool
    size: int
    signed: bool
    registers: tuple[int, ...]
    base: int
    index: int | None = None
    shift: int = 0
    displacement: int = 0
    writeback: Writeback = Writeback.NONE

    def address(self, registers: list[int]) -> int:
        """Return the address of the first byte accessed."""
        address = registers[self.base]
        if self.index is not None:
            address += registers[self.index] << self.shift
        if self.writeback is not Writeback.POST:
            address += self.displacement
        return address & _MASK

    def perform(self, registers: list[int], bus: Bus) -> list[int]:
        """Carry out the access on `bus`. Return the 17 registers (as in `ethos_hil.harness.virtual.gdb`) after it."""
        after = list(registers)
        address = self.address(registers)
        new_base = (registers[self.base] + self.displacement) & _MASK
        if self.writeback is not Writeback.NONE:
            after[self.base] = new_base
        for number, register in enumerate(self.registers):
            where = (address + number * self.size) & _MASK
            if self.load:
                value = bus.load(where, self.size)
                if self.signed and value >> (8 * self.size - 1):
                    value |= _MASK << (8 * self.size) & _MASK
                after[register] = value
            else:
                bus.store(where, self.size, registers[register] & (_MASK >> (32 - 8 * self.size)))
        after[PC] = (registers[PC] + self.length) & _MASK
        after[XPSR] = advance_it(registers[XPSR])
        return after


def advance_it(xpsr: int) -> int:
    """Return `xpsr` after one more instruction of an IT block, or unchanged outside of one.

    ITSTATE is EPSR.IT: bits 26:25 are IT[1:0], bits 15:10 are IT[7:2].
    """
    state = (xpsr >> 25 & 3) | (xpsr >> 10 & 0x3F) << 2
    if state & 0xF == 0:  # not in a block; bits 7:4 then belong to an interrupted multi-cycle instruction
        return xpsr
    state = 0 if state & 7 == 0 else (state & 0xE0) | (state << 1 & 0x1F)
    return (xpsr & ~(3 << 25 | 0x3F << 10)) | (state & 3) << 25 | (state >> 2) << 10


_SIZES = (4, 2, 1, 1, 4, 2, 1, 2)
"""Bytes, by the opcode of a 16-bit encoding with an index register: STR, STRH, STRB, LDRSB, LDR, LDRH, LDRB, LDRSH."""


@functools.lru_cache(maxsize=1000)
def decode(code: bytes) -> InterceptedAccess:
    """Return the load or store at the start of `code`, which is 4 bytes, or 2 where no more can be read.

    Raises:
        UnsupportedAccess: it is another instruction, or one that uses the program counter.
    """
    first, second = (int.from_bytes(code[at : at + 2], "little") for at in (0, 2))
    wide = first >> 11 >= 0b11101
    access = (_double(first, second) or _single(first, second)) if wide else _short(first)
    if access is None or PC in (*access.registers, access.base, access.index) or access.length > len(code):
        kind = "vector or coprocessor " if wide and first & 0xEC00 == 0xEC00 else ""
        halfwords = (first, second)[: len(code) // 2 if wide else 1]
        raise UnsupportedAccess(f"the {kind}instruction {' '.join(f'{value:04x}' for value in halfwords)}")
    return access


def _short(code: int) -> InterceptedAccess | None:
    """Decode a 16-bit encoding."""
    load, number, base, data = bool(code & 1 << 11), code >> 6 & 31, code >> 3 & 7, code & 7
    match code >> 12:
        case 0b0101:
            opcode = code >> 9 & 7
            return InterceptedAccess(2, opcode >= 3, _SIZES[opcode], opcode in (3, 7), (data,), base, index=number & 7)
        case 0b0110:
            return InterceptedAccess(2, load, 4, False, (data,), base, displacement=4 * number)
        case 0b0111:
            return InterceptedAccess(2, load, 1, False, (data,), base, displacement=number)
        case 0b1000:
            return InterceptedAccess(2, load, 2, False, (data,), base, displacement=2 * number)
        case 0b1001:
            return InterceptedAccess(2, load, 4, False, (code >> 8 & 7,), SP, displacement=4 * (code & 0xFF))
    return None


def _single(first: int, second: int) -> InterceptedAccess | None:
    """Decode a 32-bit encoding with one data register."""
    size, signed, load = 1 << (first >> 5 & 3), bool(first & 1 << 8), bool(first & 1 << 4)
    base, data = first & 15, second >> 12
    if first >> 9 != 0b1111100 or size > 4 or (signed and (size == 4 or not load)):
        return None
    if first & 1 << 7:
        return InterceptedAccess(4, load, size, signed, (data,), base, displacement=second & 0xFFF)
    if second & 0xFC0 == 0:
        return InterceptedAccess(4, load, size, signed, (data,), base, index=second & 15, shift=second >> 4 & 3)
    before, up, write = (bool(second & 1 << bit) for bit in (10, 9, 8))
    if not second & 1 << 11 or not (before or write) or (before and up and not write):  # the last: LDRT and its like
        return None
    displacement = second & 0xFF if up else -(second & 0xFF)
    return InterceptedAccess(
        4, load, size, signed, (data,), base, displacement=displacement, writeback=_writeback(before, write)
    )


def _double(first: int, second: int) -> InterceptedAccess | None:
    """Decode LDRD or STRD."""
    before, up, write, load = (bool(first & 1 << bit) for bit in (8, 7, 5, 4))
    if first >> 9 != 0b1110100 or not first & 1 << 6 or not (before or write):
        return None
    displacement, registers = 4 * (second & 0xFF) * (1 if up else -1), (second >> 12, second >> 8 & 15)
    return InterceptedAccess(
        4, load, 4, False, registers, first & 15, displacement=displacement, writeback=_writeback(before, write)
    )


def _writeback(before: bool, write: bool) -> Writeback:
    return Writeback.NONE if not write else Writeback.PRE if before else Writeback.POST
