"""Errors of the target's side, under the root that ethos_hil.lowering.errors defines."""

from __future__ import annotations

from ethos_hil.lowering.errors import EthosHilError, ToolError


class TargetError(EthosHilError):
    """Something went wrong on, or on the way to, the target.

    Kinds: "fault" (CPU exception or NPU fault), "timeout", "link" (broken, corrupt or incomplete frames),
    "stale-output" (an answer to another run), "wrong-program" (the device runs another program), "out-of-memory",
    "unsupported" (operators the firmware lacks), "npu-mismatch", "crashed" (the simulator ended), "hazard" (a command
    stream lacks a wait), "missing-output" and "damaged-output" (files of a runner).
    """

    kind = "fault"

    def __init__(
        self, message: str, *, hint: str | None = None, kind: str | None = None, console: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint, kind=kind)
        self.console = console


class TargetNotAvailable(ToolError):
    """The target could not be started. Kinds: "not-launched", "licence" (an FVP lacks one)."""

    kind = "not-launched"
