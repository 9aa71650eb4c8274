"""Processes that a test has started, and that must end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

_SECONDS = 60.0
"""What is killed and not our child dies in its own time, on a busy computer in some seconds."""


def alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie: one that ended stays in the list until it is asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def left_of(pids: Iterable[int]) -> list[int]:
    """Wait until processes have ended. Return those that have not in a minute."""
    left = list(pids)
    end = time.monotonic() + _SECONDS
    while (left := [pid for pid in left if alive(pid)]) and time.monotonic() < end:
        time.sleep(0.02)
    return left
