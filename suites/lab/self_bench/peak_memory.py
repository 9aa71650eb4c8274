"""The most memory that this process has used."""

from __future__ import annotations

import re
from pathlib import Path


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes.

    `getrusage` is no use for this: Linux counts what the process had before `exec`, so that a process started by a
    large one starts with the size of that one (`exec_mmap` in fs/exec.c).
    """
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)[1]) << 10  # type: ignore[index]
