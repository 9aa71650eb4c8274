"""Locks between processes. No one waits without a word, nor without a limit.

The lock file says who holds the lock. A process that waits for longer than two seconds repeats that on stderr; after 15
minutes it gives up. Who writes a run folder holds a lock, too, which ends with the process; several may.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.dataclasses import asdict, dataclass
from ethos_hil.base.errors import ToolError
from ethos_hil.base.files import read_text
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.verdict import FailureKind

if TYPE_CHECKING:
    from filelock import BaseFileLock

LIMIT = 900.0
"""Seconds that a process waits for a lock. Vela takes a few minutes for the largest models that fit a board."""
_SILENT = 2.0
_POLL = 0.05
_SHOWN = 200
_MOST_BYTES = 4096


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock.

    Attributes:
        pid: its number on its machine.
        host: name of its machine.
        command: the command line that started it.
        since: when it took the lock, UTC.
    """

    pid: int
    host: str
    command: str
    since: str

    @classmethod
    def this(cls) -> Holder:
        """Return the present process."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(os.getpid(), socket.gethostname(), shlex.join(sys.argv)[:_SHOWN], now)

    @classmethod
    def read(cls, path: Path) -> Holder | None:
        """Return the process that a lock file names, or None."""
        try:
            document = json.loads(read_text(path, most=_MOST_BYTES))
            return cls(int(document["pid"]), *(str(document[name])[:_SHOWN] for name in ("host", "command", "since")))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    @property
    def is_here(self) -> bool:
        """Return whether it runs on this machine."""
        return self.host == socket.gethostname()

    def __str__(self) -> str:
        """Return one line about it, without control characters."""
        where = "" if self.is_here else f" on {ascii(self.host)[1:-1]}"
        return f"process {self.pid}{where} ({ascii(self.command)[1:-1]}) since {ascii(self.since)[1:-1]}"

    @property
    def remedy(self) -> str:
        """Return what a user can do about it."""
        return f"wait for it, or end it: `kill {self.pid}`" + ("" if self.is_here else f" on {ascii(self.host)[1:-1]}")


@contextlib.contextmanager
def lock(path: Path, *, wait: bool = True, limit: float = LIMIT) -> Iterator[bool]:
    """Hold the lock in a file. Yields False if another process holds it and `wait` is False.

    Args:
        path: the lock file; it and its folder are made.
        wait: whether to wait for another process.
        limit: seconds to wait at most.

    Raises:
        ToolError: another process has held the lock for that long. Its kind is "cache".
        OSError: the file cannot be made.
    """
    from filelock import FileLock

    lock = FileLock(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not _take(lock, 0.0):
        if not wait:
            yield False
            return
        _wait(lock, path, limit)
    try:
        with _note(path):
            yield True
    finally:
        lock.release()


def _take(lock: BaseFileLock, seconds: float) -> bool:
    from filelock import Timeout

    try:
        lock.acquire(timeout=seconds, poll_interval=_POLL)
    except Timeout:
        return False
    return True


def _wait(lock: BaseFileLock, path: Path, limit: float) -> None:
    """Take a lock that another process holds. What is known of that process is told when it changes."""
    until = time.monotonic() + limit
    waited_for = None
    while not _take(lock, min(_SILENT, max(until - time.monotonic(), 0.0))):
        holder = Holder.read(path)
        who = "another process" if holder is None else str(holder)
        if time.monotonic() >= until:
            raise ToolError(
                f"waited {limit:g} s for {path}, which {who} holds",
                hint=None if holder is None else holder.remedy,
                kind=FailureKind.CACHE,
            )
        if who != waited_for:
            remedy = "" if holder is None else f"; {holder.remedy}"
            sys.stderr.write(one_line(f"ethos-hil: waiting for {who}, which holds {path}{remedy}") + "\n")
            sys.stderr.flush()
            waited_for = who


@contextlib.contextmanager
def _note(path: Path) -> Iterator[None]:
    """Say in a lock file that this process holds it. A full disk does not matter: the note is only for people."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(asdict(Holder.this())).encode())
        yield
    finally:
        with contextlib.suppress(OSError):  # by descriptor: the file may be gone, and another one in its place
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


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
