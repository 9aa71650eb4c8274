"""Who writes a run folder: every process that does holds a lock, which ends with the process."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

_NAME = "writing.lock"


class Writing:
    """While it is held, this process may write a run folder that has a name of its own. Several processes may."""

    def __init__(self, folder: Path) -> None:
        """Wait until no one waits for the writers' end, and start.

        Raises:
            OSError: the folder cannot be made or written.
        """
        self._descriptor = _open(folder)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def close(self) -> None:
        """End it. May be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def wait_for_writers(folder: Path, seconds: float) -> bool:
    """Wait until no process writes a run folder. Return whether that is so.

    A process that was started by one that was killed may write for a moment longer.

    Raises:
        OSError: the folder cannot be written.
    """
    descriptor = _open(folder)
    until = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    return False
                time.sleep(0.02)
            else:
                return True
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
