"""The NPU's PMU events that a profile counts, by name, and how many counters an NPU has for them.

Numbers and names: Arm's core driver (ethosu_pmu.h); those that the virtual board counts too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu_name import NpuName
from ethos_hil.harness.image.formats import EVENT_COUNTERS

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
