"""Processes with a mark, and what they leave behind: others that still run, and locks that are held.

The campaigns that kill use it. All that a marked process starts has its mark, also when the process has ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.process import dies_with

MARK = "ETHOS_HIL_MARK"
"""Environment variable with the mark."""
_POLL_SECONDS = 0.02


class MarkedProcess:
    """A process that is going to be killed, or runs beside one that is."""

    def __init__(
        self, command: Sequence[str], mark: str, log: Path, *, cwd: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it. It ends with this process.

        Args:
            command: its command line.
            mark: tells its processes from all others.
            log: the file that what it prints is appended to.
            cwd: where it runs.
            environment: what differs in its environment.
        """
        self.mark, self._log = mark, log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **(environment or {}), MARK: mark},
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=dies_with(os.getpid()),
            )

    @property
    def running(self) -> bool:
        """Whether the process that was started still runs."""
        return self._process.poll() is None

    def kill(self, *, everything: bool) -> None:
        """Send SIGKILL to it, or to all processes with its mark."""
        for process in marked(self.mark) if everything else ():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end for some time. Return whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.running

    def end(self, seconds: float) -> None:
        """Wait until it has ended by itself. Raise RuntimeError if it does not, or ends with another status than 0."""
        if not self.ends_within(seconds):
            self.kill(everything=True)
            raise RuntimeError(f"{self.mark} did not end within {seconds:g} s:\n{self._log.read_text()}")
        if self._process.returncode:
            raise RuntimeError(f"{self.mark} ended with status {self._process.returncode}:\n{self._log.read_text()}")


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
