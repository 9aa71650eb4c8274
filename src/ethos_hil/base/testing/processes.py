"""Processes that a test has started, what it waits for in them, and that they must end.

A test never sleeps for a while and then expects that a process has got somewhere: on a busy computer it has not.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import signal
import termios
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ethos_hil.base.process import end_on_signals

_SECONDS = 60.0
"""What is killed and not our child dies in its own time, on a busy computer in some seconds."""
_PATIENCE = 120.0
"""Within which what a test waits for happens. Only a defect takes so long."""


@contextlib.contextmanager
def signals_of_a_command() -> Iterator[None]:
    """Have signals do what they do in a command. The session has handlers of its own, which hear one in a second."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)}
    put_back = end_on_signals()
    try:
        yield
    finally:
        put_back()
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_until(happened: Callable[[], object], what: str = "what the test waits for") -> None:
    """Wait until a condition is met.

    Raises:
        AssertionError: it is not, for two minutes.
    """
    end = time.monotonic() + _PATIENCE
    while not happened():
        assert time.monotonic() < end, f"it does not happen: {what}"
        time.sleep(0.01)


def wait_for_full_pipe(reading: int) -> None:
    """Wait until no more fits into a pipe, of which this is the end that is read."""
    held = array.array("i", [0])

    def full() -> bool:
        fcntl.ioctl(reading, termios.FIONREAD, held)
        return held[0] >= fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)

    wait_until(full, "the pipe is full")


def _stat(pid: int) -> list[str]:
    """Return the fields of proc(5)'s stat from the third on, which is the state; none where the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its threads so far."""
    return sum(map(int, _stat(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def wait_for_work(pid: int, seconds: float = 0.2) -> None:
    """Wait until a process has used more CPU time."""
    until = cpu_seconds(pid) + seconds
    wait_until(lambda: cpu_seconds(pid) >= until, f"the process {pid} works")


def state_of(pid: int) -> str:
    """Return the letter of a process's state, as in proc(5): T where a signal has stopped it; "" where it has ended."""
    return "".join(_stat(pid)[:1])


def alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie: one that ended stays in the list until it is asked for."""
    return state_of(pid) not in ("", "Z")


def name_of(pid: int) -> str:
    """Return the name of a process's program, as in proc(5)'s comm; "" where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def left_of(pids: Iterable[int]) -> list[int]:
    """Wait until processes have ended. Return those that have not in a minute."""
    left = list(pids)
    end = time.monotonic() + _SECONDS
    while (left := [pid for pid in left if alive(pid)]) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def processes_with(*texts: bytes, file: str = "cmdline") -> set[int]:
    """Return the processes, without this one, whose file in /proc has all these texts."""
    processes = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            data = (folder / file).read_bytes()
        except OSError:
            continue
        if all(text in data for text in texts) and int(folder.name) != os.getpid():
            processes.add(int(folder.name))
    return processes


def parent_of(pid: int) -> int:
    """Return the process that a process was started by; 0 where it has ended."""
    return int("".join(_stat(pid)[1:2]) or 0)
