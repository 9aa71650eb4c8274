"""How a profile is taken: by which method, and with which of the NPU's PMU events.

Numbers and names of the events: Arm's core driver (ethosu_pmu.h); those that the virtual board counts too.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import ALL_EVENTS, PMU_EVENTS
from ethos_hil.base.question import Question
from ethos_hil.harness.targets.base import Capability, Target

EVENTS = dict(zip(PMU_EVENTS, (35, 48, 64, 80, 130, 135, 386, 391), strict=True))
"""On an Ethos-U85 the driver calls port 0 SRAM and port 1 EXT."""
NAMES = {number: name for name, number in EVENTS.items()}


def event_numbers(names: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of events by their names; "all" is every event."""
    return tuple(EVENTS.values()) if ALL_EVENTS in names else tuple(EVENTS[name] for name in dict.fromkeys(names))


def event_sets(numbers: Sequence[int], npu: EthosU) -> tuple[tuple[int, ...], ...]:
    """Return events in sets that the NPU's counters can count at once, each in an execution of its own."""
    counters = npu.family.event_counters
    return tuple(tuple(numbers[at : at + counters]) for at in range(0, len(numbers), counters)) or ((),)


_REPEATS = 3
"""Executions by default where two may differ: the least that have a median."""


class ProfileMethod(enum.StrEnum):
    """Where the cycles of an operation come from."""

    SHARES = "shares"
    """The target says what each operation takes."""
    PREFIX = "prefix"
    """Differences between jobs that run more and more of the command stream."""


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
    if method is ProfileMethod.SHARES and Capability.OP_EVENTS not in able:
        raise UsageError(f"{board.name} does not see operations", hint=f"use --method {ProfileMethod.PREFIX}")
    return method


def default_repeat(board: Target) -> int:
    """Return the executions of a profile where the user does not say: one where all are alike."""
    return 1 if board.kind == "virtual" else _REPEATS
