"""How a profile is taken: by which method, and with which of the NPU's PMU events.

Numbers and names of the events: Arm's core driver (ethosu_pmu.h); those that the virtual board counts too.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu_name import NpuName
from ethos_hil.harness.image.formats import EVENT_COUNTERS
from ethos_hil.harness.targets.base import Capability, Target

EVENTS = {
    "npu_active": 35,
    "mac_active": 48,
    "output_active": 64,
    "weight_decoder_active": 80,
    "port0_read_beats": 130,
    "port0_write_beats": 135,
    "port1_read_beats": 386,
    "port1_write_beats": 391,
}
"""On an Ethos-U85 the driver calls port 0 SRAM and port 1 EXT."""
NAMES = {number: name for name, number in EVENTS.items()}
DEFAULT_EVENTS = ("npu_active", "mac_active", "output_active", "weight_decoder_active")
ALL = "all"
_COUNTERS_U55 = 4
"""Of an Ethos-U55 or U65."""


def event_numbers(names: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of events.

    Args:
        names: names from EVENTS, or "all".

    Raises:
        UsageError: no event has such a name.
    """
    asked = tuple(EVENTS) if ALL in names else tuple(dict.fromkeys(names))
    for name in asked:
        if name not in EVENTS:
            raise UsageError(f"no PMU event is called {name!r}", hint=f"there are: {', '.join((*EVENTS, ALL))}")
    return tuple(EVENTS[name] for name in asked)


def event_sets(numbers: Sequence[int], npu: NpuName) -> tuple[tuple[int, ...], ...]:
    """Return events in sets that the NPU's counters can count at once, each in an execution of its own."""
    counters = EVENT_COUNTERS if npu.family == "u85" else _COUNTERS_U55
    return tuple(tuple(numbers[at : at + counters]) for at in range(0, len(numbers), counters)) or ((),)


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

    Attributes:
        method: None for what suits the target: `SHARES` where it sees operations, else `PREFIX`.
        events: names of PMU events (`ethos_hil.harness.profile.options.EVENTS`), counted with `PREFIX` for each row.
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
