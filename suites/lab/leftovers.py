"""What processes leave behind: others that still run, and locks that are held.

The campaign of boards uses it. All that a process with a mark starts has the mark too, also when it has ended.
"""

from __future__ import annotations

import time
from pathlib import Path

from filelock import FileLock, Timeout

from ethos_hil.base.deadline import Deadline

MARK = "ETHOS_HIL_MARK"
"""Environment variable with the mark."""
_POLL_SECONDS = 0.02


def marked(mark: str) -> dict[int, str]:
    """Return the processes with a mark that run, and their command lines."""
    commands = {}
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                commands[int(folder.name)] = command
        except OSError:
            continue  # it has ended, or is another user's
    return commands


def still_marked(mark: str, deadline: Deadline) -> dict[int, str]:
    """Return the processes with a mark that have not ended at a deadline."""
    while (commands := marked(mark)) and not deadline.passed:
        time.sleep(_POLL_SECONDS)
    return commands


def is_held(lock: Path) -> bool:
    """Return whether someone has a lock file's lock."""
    try:
        FileLock(lock).acquire(blocking=False).lock.release()
    except Timeout:
        return True
    return False
