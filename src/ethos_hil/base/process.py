"""Child processes that never outlive this process, however it ends. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_END_SECONDS = 5.0
_EXEC_SECONDS = 0.2
"""How long a process may take to begin a program, until its environment can be seen."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


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
    """Hold back Ctrl-C and the signals that end a run as it does.

    So none can strike between the start of a child and the moment we know its id.
    """
    # Only the main thread can do this, and only it gets them; None is a handler that Python can't restore.
    here = threading.current_thread() is threading.main_thread()
    before = {number: handler for number in _ENDING if here and (handler := signal.getsignal(number)) is not None}
    caught: list[int] = []
    try:
        for number in before:
            signal.signal(number, lambda sent, frame: caught.append(sent))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for sent in caught:
            signal.raise_signal(sent)


def end_marked(variable: str, value: str) -> None:
    """Kill every process of this user that has an environment variable of this value, until there is none.

    It finds what a program started and left behind: a process in a session of its own keeps its environment.
    """
    mark = f"{variable}={value}".encode()
    now = time.monotonic()
    end, doubt_ends = now + _END_SECONDS, now + _EXEC_SECONDS
    while time.monotonic() < end:
        marked, doubtful = _marked(mark)
        for process in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if not marked and (not doubtful or time.monotonic() > doubt_ends):
            return
        time.sleep(0.001)


def _marked(mark: bytes) -> tuple[list[int], bool]:
    """Return the processes with this mark, and whether another shows no environment, as one that just begins to run a
    program does.
    """
    found, doubtful = [], False
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        # Gone meanwhile, or of another user; a zombie or a thread of the kernel has no program either.
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes()
            if mark in variables.split(b"\0"):
                found.append(int(folder.name))
            elif not variables:
                doubtful |= bool((folder / "exe").readlink())
    return found, doubtful


def wait_for_end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a child has ended, and reap it. `Popen.wait` with a limit looks at intervals, and is up to 50 ms late.

    Raises:
        subprocess.TimeoutExpired: it has not ended within `seconds`.
    """
    until = time.monotonic() + seconds
    if process.poll() is None:
        with contextlib.suppress(OSError):  # before Linux 5.3, or without a free descriptor
            descriptor = os.pidfd_open(process.pid)
            try:
                watch = select.poll()
                watch.register(descriptor, select.POLLIN)
                watch.poll(seconds * 1000)
            finally:
                os.close(descriptor)
    process.wait(max(0.0, until - time.monotonic()))
