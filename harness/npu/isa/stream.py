"""The command stream as words and registers, before they are interpreted, and the error with which one is refused.

Registers keep their values for the whole stream: the compiler omits writes that change nothing, so an operation uses
the last value written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.isa.operations import Instruction
from ethos_hil.harness.npu.isa.registers import Dialect, Opcode, Register
from ethos_hil.harness.npu.isa.registers_u85 import BRANCH
from ethos_hil.lowering.formats.command_stream import Command, CommandStreamError
from ethos_hil.lowering.formats.command_stream import commands as parse


class Fault(EthosHilError):
    """A command stream cannot be decoded or executed.

    Kinds: "parse" (the stream is not valid for this NPU), "bus" (an access leaves its region, or writes to a read-only
    one), "unsupported" (valid as far as known, but its arithmetic is not established), "hazard" (on a strict NPU: a
    wait is missing; the message says which one would do, and `register` and `value` are that wait).

    Attributes:
        offset: byte offset in the command stream of the command word that faulted.
        op: the command at that offset ("CONV", "DMA", "IFM_PRECISION", ...).
        register: the register, or other item, whose value is wrong.
        value: that value.
        region: for a "bus" fault the region of the access, or INTERNAL; -1 otherwise.
    """

    def __init__(
        self,
        kind: FailureKind,
        offset: int,
        op: str,
        register: str,
        value: int,
        message: str,
        *,
        hint: str | None = None,
        region: int = -1,
    ) -> None:
        number = str(value) if -1024 < value < 1024 else hex(value)
        blamed = "" if kind == FailureKind.HAZARD else f"{register} is {number}: "
        text = f"{kind} fault at 0x{offset:x} ({op}): {blamed}{message}"
        super().__init__(text, kind=kind, hint=hint)
        self.offset = offset
        self.op = op
        self.register = register
        self.value = value
        self.region = region

    @classmethod
    def of(
        cls,
        op: Instruction,
        kind: FailureKind,
        register: str,
        value: int,
        message: str,
        *,
        hint: str | None = None,
        region: int = -1,
    ) -> Fault:
        """Return the fault of an operation or a branch."""
        return cls(kind, op.offset, op.name, register, value, message, hint=hint, region=region)


def commands(stream: bytes) -> Iterator[Command]:
    """Yield the commands of a stream in order.

    Raises Fault when the stream ends inside a command, or a word is not a command.
    """
    try:
        yield from parse(stream)
    except CommandStreamError as error:
        raise Fault(FailureKind.PARSE, error.offset, "STREAM", error.what, error.value, error.problem) from error


def branch_targets(stream: bytes) -> frozenset[int]:
    """Return the offsets that an Ethos-U85's branches go to, as far as the stream's commands can be read."""
    targets = set()
    with suppress(Fault):  # decoding reports it, unless STOP comes first
        for _, code, _, payload in commands(stream):
            if payload is not None and code == BRANCH:
                targets.add(payload)
            elif payload is None and code == Opcode.STOP:
                break
    return frozenset(targets)


class RegisterFile:
    """The values that the stream has written so far, and the decoder's position in it.

    Attributes:
        offset: byte offset of the current command word.
        op: the current command's name, for faults.
        written, read: names of the registers written and read since a caller last cleared these sets.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.offset = 0
        self.op = "STREAM"
        self.written: set[str] = set()
        self.read: set[str] = set()
        self._values: dict[str, int] = {}

    def fault(self, kind: FailureKind, register: str, value: int, message: str, *, hint: str | None = None) -> Fault:
        """Return a Fault at the current command."""
        return Fault(kind, self.offset, self.op, register, value, message, hint=hint)

    def malformed(self, register: str, value: int, message: str) -> Fault:
        """Return the Fault of a command that is not valid for this NPU."""
        return self.fault(FailureKind.PARSE, register, value, message)

    def unsupported(self, register: str, value: int, message: str, *, hint: str | None = None) -> Fault:
        """Return the Fault of a valid command whose arithmetic is not established."""
        return self.fault(FailureKind.UNSUPPORTED, register, value, message, hint=hint)

    def get(self, register: str) -> int:
        """Return a register's value. Raises Fault if the stream never wrote it."""
        self.read.add(register)
        try:
            return self._values[register]
        except KeyError:
            raise self.malformed(register, 0, "the operation needs this register, which was never written") from None

    def forget(self) -> None:
        """Drop all values."""
        self._values.clear()

    def write(self, registers: Mapping[int, Register], code: int, value: int) -> None:
        """Set one of the dialect's short or long `registers`; a long value has the parameter above the payload."""
        register = registers.get(code)
        if register is None:
            raise self.malformed("opcode", code, "this NPU has no register with this code")
        if value & ~register.valid:
            self.op = register.name
            raise self.malformed(register.name, value, f"bits outside of 0x{register.valid:x} have no known meaning")
        if register.signed and value >> 39:
            value -= 1 << 40
        self._values[register.name] = value
        self.written.add(register.name)
