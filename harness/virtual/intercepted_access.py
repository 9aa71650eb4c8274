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
from typing import Any, Protocol

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.virtual.qemu_control import PC, XPSR

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

_NUMBERS = {f"r{number}": number for number in range(16)} | {
    "sb": 9, "sl": 10, "fp": 11, "ip": 12, "sp": 13, "lr": 14, "pc": PC,
}  # fmt: skip


def prepare() -> None:
    """Load the disassembler now (50 ms), before it delays a run."""
    _capstone()


@functools.cache
def _capstone() -> tuple[Any, Any]:
    import capstone

    mode = capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8
    disassembler = capstone.Cs(capstone.CS_ARCH_ARM, mode)
    disassembler.detail = True
    return capstone, disassembler


@functools.lru_cache(maxsize=1000)
def decode(code: bytes, pc: int) -> InterceptedAccess:
    """Return the load or store at the start of `code` (4 bytes from `pc`, or 2 when that is its length).

    Raises:
        UnsupportedAccess: it is another instruction, or none that is known.
    """
    capstone, disassembler = _capstone()
    arm = capstone.arm
    first = int.from_bytes(code[:2], "little")
    code = code if first >> 11 >= 0b11101 else code[:2]  # such a first halfword is one of a 32-bit instruction
    insn = next(disassembler.disasm(code, pc, 1), None)
    if insn is None or insn.size != len(code):
        halfwords = [f"{int.from_bytes(code[at : at + 2], 'little'):04x}" for at in range(0, len(code), 2)]
        kind = "vector or coprocessor " if first & 0xEC00 == 0xEC00 else ""  # Capstone knows no MVE
        raise UnsupportedAccess(f"the {kind}instruction {' '.join(halfwords)}")
    text = f"{insn.mnemonic} {insn.op_str}".strip()
    access = _KINDS.get(insn.insn_name())
    of_type = {form: [part for part in insn.operands if part.type == form] for form in (arm.ARM_OP_REG, arm.ARM_OP_MEM)}
    numbers = [_number(insn, part.reg) for part in of_type[arm.ARM_OP_REG]]
    registers = tuple(number for number in numbers if number is not None)
    places = of_type[arm.ARM_OP_MEM]
    extra = [part.imm for part in insn.operands if part.type == arm.ARM_OP_IMM]
    counted = len(registers) + len(places) + len(extra) == len(insn.operands)
    expected = 2 if insn.insn_name() in _DOUBLES else 1
    refused = UnsupportedAccess(text)
    if access is None or not counted or len(places) != 1 or len(registers) != expected or len(extra) > 1:
        raise refused
    place = places[0].mem
    displacement, writeback = place.disp, Writeback.PRE if insn.writeback else Writeback.NONE
    if extra:
        if displacement:
            raise refused
        displacement, writeback = extra[0], Writeback.POST
    base, index = _number(insn, place.base), _number(insn, place.index)
    if base is None or base == PC or PC in registers:
        raise refused
    load, size, signed = access
    return InterceptedAccess(
        mnemonic=text,
        length=insn.size,
        load=load,
        size=size,
        signed=signed,
        registers=registers,
        base=base,
        index=index,
        shift=places[0].shift.value if places[0].shift.type else 0,
        displacement=displacement,
        writeback=writeback,
    )


def _number(insn: Any, register: int) -> int | None:
    """Return the number of one of the core's registers; None for no register, or another one."""
    return _NUMBERS.get(insn.reg_name(register)) if register else None
