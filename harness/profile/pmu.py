"""The NPU's PMU events that a profile counts, by name, and how many counters an NPU has for them.

Numbers and names: Arm's core driver (ethosu_pmu.h); those that the virtual board counts too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import ALL_EVENTS, PMU_EVENTS

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
