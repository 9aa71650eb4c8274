"""Times on the monotonic clock."""

from __future__ import annotations

import os
import time
from pathlib import Path


class Deadline:
    """A moment at which a wait must end."""

    def __init__(self, seconds: float) -> None:
        """Set the deadline `seconds` from now."""
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining == 0.0


def process_began() -> float:
    """Return when this process started, on the monotonic clock, to a hundredth of a second; now where it is not known.

    Linux has it in ticks since the boot, the 22nd field of proc(5)'s stat; the 2nd is a name with any characters.
    """
    now = time.monotonic()
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return now - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return now
