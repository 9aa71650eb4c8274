"""The registers of a processor core that executes start-up code, and its operands.

A value that a device would give, or memory that nothing has written, is not known (None), and neither is what is
computed from it. Semantics: Armv8-M Architecture Reference Manual (DDI 0553), C2.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from ethos_hil.harness.image.thumb import ALWAYS, PC, SP, Place, Shifted

MASK = 0xFFFFFFFF
Value = int | None


class CoreMemory(Protocol):
    """What the processor is connected to.

    Attributes:
        code_version: another number whenever what `fetch` returned before has changed.
    """

    code_version: int

    def load(self, address: int, size: int, strict: bool) -> Value:
        """Return `size` (1, 2 or 4) bytes, zero-extended, or None where they are not known.

        `strict`: the instruction faults where the address is not a multiple of four.
        """

    def store(self, address: Value, size: int, value: Value, strict: bool) -> None:
        """Store the low bytes of `value`."""

    def fetch(self, address: int) -> int | None:
        """Return the halfword of code, or None where there is none."""


class NotFollowed(Exception):
    """The processor cannot go on. The message says why."""


def register_operand(operand: object) -> Shifted:
    """Return an operand that has to be a register."""
    if not isinstance(operand, Shifted):
        raise NotFollowed("it has an instruction in a form that is not modelled")
    return operand


def number_operand(operand: object) -> int:
    """Return an operand that has to be a number."""
    if not isinstance(operand, int):
        raise NotFollowed("it has an instruction in a form that is not modelled")
    return operand


class Undecided(Exception):
    """Where the program goes on depends on what is not known. `choices` are the addresses."""

    def __init__(self, choices: tuple[int, int]) -> None:
        super().__init__(choices)
        self.choices = choices


@dataclass
class Registers:
    """The state of the core. `r` are r0 to r15; the flags are n, z, c, v; `it` are conditions of an IT block."""

    r: list[Value]
    n: bool | None = None
    z: bool | None = None
    c: bool | None = None
    v: bool | None = None
    it: tuple[int, ...] = ()
    special: dict[int, Value] | None = None

    def copy(self) -> Registers:
        """Return another one with the same state."""
        return replace(self, r=list(self.r), special=dict(self.special or {}))


class Core:
    """Registers and memory of one processor.

    Attributes:
        state: its registers.
        memory: what it is connected to.
        sets_stack: whether it has set the stack pointer to what is known.
        unsure: whether it has passed an instruction whose condition is not known.
    """

    def __init__(self, memory: CoreMemory, stack: int, entry: int) -> None:
        """Put a core at `entry`, with `stack` as its main stack pointer."""
        self.state = Registers([None] * 13 + [stack & ~3, MASK, entry & ~1], special={})
        self.memory = memory
        self.sets_stack = False
        self.unsure = False

    def passes(self, condition: int) -> bool | None:
        """Return whether a condition holds, or None where that is not known."""
        if condition >= ALWAYS:
            return True
        s, kind = self.state, condition >> 1
        value = (s.z, s.c, s.n, s.v)[kind] if kind < 4 else self._combine(kind)
        return None if value is None else value != bool(condition & 1)

    def _combine(self, kind: int) -> bool | None:
        """Return whether HI, GE or GT holds."""
        s = self.state
        if kind == 4:
            return None if s.c is None or s.z is None else s.c and not s.z
        if s.n is None or s.v is None or (kind == 6 and s.z is None):
            return None
        return s.n == s.v and not (kind == 6 and s.z)

    def value(self, operand: object, address: int = 0) -> Value:
        """Return the value of a register or immediate operand; shifted, where it says so."""
        if isinstance(operand, int):
            return operand
        operand = register_operand(operand)
        value = address + 4 if operand.register == PC and address else self.state.r[operand.register]
        return shift(value, operand.how, operand.amount)[0] if operand.how else value

    def place(self, operand: Place, address: int) -> Value:
        """Return the address that a memory operand names."""
        base = address + 4 & ~3 if operand.base == PC else self.state.r[operand.base]
        if base is None:
            return None
        index = 0
        if operand.index is not None:
            offset = self.state.r[operand.index]
            if offset is None:
                return None
            index = offset << operand.shift
        return (base + index + operand.displacement) & MASK

    def set(self, number: int, value: Value) -> None:
        """Set a register; the program counter with a jump."""
        if number == PC:
            self.jump(value)
            return
        if number == SP:
            self.sets_stack |= value is not None
            value = None if value is None else value & ~3
        self.state.r[number] = value

    def jump(self, target: Value) -> None:
        """Go on at `target`."""
        if target is None:
            self.state.r[PC] = None
            return
        if target >= 0xFF000000:
            raise NotFollowed(f"it returns to 0x{target:08x}, which is not code")
        self.state.r[PC] = target & ~1

    def load(self, address: Value, size: int, strict: bool = False) -> Value:
        """Load; of an unknown address an unknown value."""
        return None if address is None else self.memory.load(address & MASK, size, strict)

    def store(self, address: Value, size: int, value: Value, strict: bool = False) -> None:
        """Store to memory."""
        self.memory.store(None if address is None else address & MASK, size, value, strict)

    @property
    def flags(self) -> Value:
        """The flags as APSR has them."""
        s = self.state
        if s.n is None or s.z is None or s.c is None or s.v is None:
            return None
        return s.n << 31 | s.z << 30 | s.c << 29 | s.v << 28

    def nz(self, value: Value) -> None:
        """Set the flags N and Z."""
        self.state.n = None if value is None else bool(value >> 31)
        self.state.z = None if value is None else value == 0


def shift(value: Value, how: str, amount: int) -> tuple[Value, bool | None]:
    """Return a shifted value and the bit that falls out."""
    if value is None or how == "rrx":
        return None, None
    if amount == 0:
        return value, None
    if how == "lsl":
        return value << amount & MASK, bool(value << amount >> 32 & 1)
    if how == "lsr":
        return value >> amount, bool(value >> (amount - 1) & 1)
    if how == "asr":
        signed = value - (1 << 32) if value >> 31 else value
        return signed >> amount & MASK, bool(signed >> (amount - 1) & 1)
    amount %= 32
    result = (value >> amount | value << (32 - amount)) & MASK
    return result, bool(result >> 31)
