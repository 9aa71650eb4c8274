"""How a profile is taken."""

from __future__ import annotations

import enum

from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import Question
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


def profile_method(question: Question, board: Target) -> ProfileMethod:
    """Return the method to use on a target: what is asked, else `SHARES` where it sees operations, else `PREFIX`.

    Raises:
        UsageError: the target cannot do it.
    """
    able = board.capabilities()
    if Capability.NPU_CYCLES not in able:
        raise UsageError(f"{board.name} counts no cycles, so there is no profile", hint="leave out --fast")
    default = ProfileMethod.SHARES if Capability.OP_EVENTS in able else ProfileMethod.PREFIX
    method = default if question.found_by is None else ProfileMethod(question.found_by)
    if method is ProfileMethod.TRACE and not board.can_trace:
        raise UsageError(f"{board.name} writes no trace of its NPU", hint="an FVP does; use --method prefix")
    if method is ProfileMethod.SHARES and Capability.OP_EVENTS not in able:
        raise UsageError(f"{board.name} does not see operations", hint=f"use --method {ProfileMethod.PREFIX}")
    return method


def default_repeat(board: Target) -> int:
    """Return the executions of a profile where the user does not say: one where all are alike."""
    return 1 if board.kind == "virtual" else _REPEATS
