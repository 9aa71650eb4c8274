"""Child processes that never outlive this process, however it ends. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_END_SECONDS = 5.0


def dies_with(parent: int) -> Callable[[], None]:
    """Return the function that makes a child die with its parent. The child calls it between fork and exec.

    The parent may have ended before the child asked for the signal. Then no signal comes, so the child checks its
    parent.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Hold back Ctrl-C, so that it can't strike between the start of a child and the moment we know its id."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is None:
        yield  # only the main thread can do this, and only it gets Ctrl-C; None is a handler that Python can't restore
        return
    caught = []
    signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if caught:
            signal.raise_signal(signal.SIGINT)


def end_marked(variable: str, value: str) -> None:
    """Kill every process of this user that has an environment variable of this value, until there is none.

    It finds what a program started and left behind: a process in a session of its own keeps its environment.
    """
    mark = f"{variable}={value}".encode()
    end = time.monotonic() + _END_SECONDS
    while (marked := _marked(mark)) and time.monotonic() < end:
        for process in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.001)


def _marked(mark: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            # Gone meanwhile, of another user, or a zombie, which has no environment.
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found
