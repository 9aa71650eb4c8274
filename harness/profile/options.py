"""How a profile is taken."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.profile.pmu import DEFAULT_EVENTS
from ethos_hil.harness.targets.base import Target
from ethos_hil.harness.targets.capability import Capability

_REPEATS = 3
"""Executions by default where two may differ: the least that have a median."""


class ProfileMethod(enum.StrEnum):
    """Where the cycles of an operation come from."""

    SHARES = "shares"
    """The target says what each operation takes."""
    PREFIX = "prefix"
    """Differences between jobs that run more and more of the command stream."""
    TRACE = "trace"
    """The simulator writes how long the NPU was where in its command stream (`--pmu-trace` of Arm's FVPs)."""


@dataclass(frozen=True)
class ProfileOptions:
    """What is asked of a profile.

    Attributes:
        method: None for what suits the target: `SHARES` where it sees operations, else `PREFIX`.
        events: names of PMU events (`ethos_hil.harness.profile.pmu.EVENTS`), counted with `PREFIX` for each row.
    """

    method: ProfileMethod | None = None
    events: tuple[str, ...] = DEFAULT_EVENTS

    def method_on(self, board: Target) -> ProfileMethod:
        """Return the method to use on a target.

        Raises:
            UsageError: the target cannot do it.
        """
        able = board.capabilities()
        if Capability.NPU_CYCLES not in able:
            raise UsageError(f"{board.name} counts no cycles, so there is no profile", hint="leave out --fast")
        method = self.method or (ProfileMethod.SHARES if Capability.OP_EVENTS in able else ProfileMethod.PREFIX)
        if method is ProfileMethod.TRACE and not board.can_trace:
            raise UsageError(f"{board.name} writes no trace of its NPU", hint="an FVP does; use --method prefix")
        if method is ProfileMethod.SHARES and Capability.OP_EVENTS not in able:
            raise UsageError(f"{board.name} does not see operations", hint=f"use --method {ProfileMethod.PREFIX}")
        return method


def default_repeat(board: Target) -> int:
    """Return the executions of a profile where the user does not say: one where all are alike."""
    return 1 if board.kind == "virtual" else _REPEATS
