"""Errors of the target's side, under the root that ethos_hil.base.errors defines."""

from __future__ import annotations

from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.verdict import FailureKind


class TargetError(EthosHilError):
    """Something went wrong on the target, or on the way to it; `kind` names it."""

    kind = FailureKind.FAULT


class BinaryRefused(TargetError):
    """A run failed on a link that seems to obey bytes in place of passing them on."""


class TargetNotAvailable(ToolError):
    """The target could not be started: `NOT_LAUNCHED`, or `LICENCE` where an FVP lacks one."""

    kind = FailureKind.NOT_LAUNCHED


class HarnessError(EthosHilError):
    """The harness, or what drives it, is at fault: not the user, a tool or the device."""

    kind = FailureKind.INTERNAL
    exit_status = 70  # as for any other defect (harness/cli/main.py)


class StateError(HarnessError):
    """A method was called in a state that it is not for."""


def exited(end: SystemExit) -> UsageError:
    """Return the error for sys.exit() in code that is not ours: its status is not the verdict's."""
    return UsageError(
        f"the model's code, or a library, ended the program with status {end.code}", hint="--debug shows where"
    )
