"""Child processes that never outlive this process, however it ends. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator

_PR_SET_PDEATHSIG = 1


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
