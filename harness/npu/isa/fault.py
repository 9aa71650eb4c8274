"""The one way in which the functional NPU refuses to go on."""

from __future__ import annotations

from ethos_hil.lowering.errors import EthosHilError
from ethos_hil.results.verdict import FailureKind


class Fault(EthosHilError):
    """A command stream cannot be decoded or executed.

    Kinds: "parse" (the stream is not a valid one for this NPU), "bus" (an access outside of, or a write to a
    read-only, region), "unsupported" (valid as far as known, but its arithmetic is not established), "hazard" (on a
    strict NPU: a wait is missing; `register` and `value` are the one that would do, which the message says).

    Attributes:
        offset: byte offset in the command stream of the command word that faulted.
        op: the command at that offset ("CONV", "DMA", "IFM_PRECISION", ...).
        register: the register, or other thing, whose value is to blame.
        value: that value.
        region: of a "bus" fault: the region of the access, or INTERNAL; where there is none, -1 too.
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
