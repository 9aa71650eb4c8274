"""The error with which the functional NPU refuses a command stream."""

from __future__ import annotations

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.verdict import FailureKind


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
        blamed = "" if kind == FailureKind.HAZARD else f"{register} is {_number(value)}: "
        text = f"{kind} fault at 0x{offset:x} ({op}): {blamed}{message}"
        super().__init__(text, kind=kind, hint=hint)
        self.offset = offset
        self.op = op
        self.register = register
        self.value = value
        self.region = region


def _number(value: int) -> str:
    return str(value) if -1024 < value < 1024 else hex(value)
