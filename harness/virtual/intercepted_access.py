"""Decode and carry out the load or store that a watchpoint stopped before it happened.

QEMU's gdbstub stops before the access and has no way to say "done, go on". So the host does what the instruction would
have done: it moves the data, updates the base register, advances the program counter and, inside an IT block, the
execution state. It knows only what compilers emit for device registers: LDR and STR of words, halfwords and bytes,
signed or not, and LDRD and STRD, in all their addressing modes. It refuses anything else by name.

Instruction semantics: Armv8-M Architecture Reference Manual, C2.4.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Protocol

from ethos_hil.harness.image.thumb import Place, Shifted
from ethos_hil.harness.image.thumb import decode as decode_thumb
from ethos_hil.harness.virtual.gdb import PC, XPSR

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
        mnemonic: for messages.
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

    mnemonic: str
    length: int
    load: bool
    size: int
    signed: bool
    registers: tuple[int, ...]
    base: int
    index: int | None
    shift: int
    displacement: int
    writeback: Writeback

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


_KINDS = {
    "ldr": (True, 4, False),
    "ldrh": (True, 2, False),
    "ldrb": (True, 1, False),
    "ldrsh": (True, 2, True),
    "ldrsb": (True, 1, True),
    "ldrd": (True, 4, False),
    "str": (False, 4, False),
    "strh": (False, 2, False),
    "strb": (False, 1, False),
    "strd": (False, 4, False),
}
_DOUBLES = ("ldrd", "strd")


@functools.lru_cache(maxsize=1000)
def decode(code: bytes, pc: int) -> InterceptedAccess:
    """Return the load or store at the start of `code` (4 bytes from `pc`, or 2 when that is its length).

    Raises:
        UnsupportedAccess: it is another instruction, or none that is known.
    """
    first, second = (int.from_bytes(code[at : at + 2], "little") for at in (0, 2))
    insn = decode_thumb(first, second, pc)
    kind = _KINDS.get(insn.name)
    places = [operand for operand in insn.operands if isinstance(operand, Place)]
    registers = tuple(operand.register for operand in insn.operands if isinstance(operand, Shifted))
    extra = [operand for operand in insn.operands if isinstance(operand, int)]
    refused = UnsupportedAccess(insn.text if insn.name else f"the {insn.text}")
    if kind is None or len(places) != 1 or len(registers) != (2 if insn.name in _DOUBLES else 1) or len(extra) > 1:
        raise refused
    place = places[0]
    displacement, writeback = place.displacement, Writeback.PRE if insn.writeback else Writeback.NONE
    if extra:
        if place.displacement:
            raise refused
        displacement, writeback = extra[0], Writeback.POST
    if place.base == PC or PC in registers:
        raise refused
    load, size, signed = kind
    return InterceptedAccess(
        mnemonic=insn.text,
        length=insn.size,
        load=load,
        size=size,
        signed=signed,
        registers=registers,
        base=place.base,
        index=place.index,
        shift=place.shift,
        displacement=displacement,
        writeback=writeback,
    )
