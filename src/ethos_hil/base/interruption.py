"""Signals that end a run as Ctrl-C does: everything that it started is ended, and its folders are removed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SAME_SECONDS = 1.0
"""A closed terminal sends SIGHUP twice: the kernel does, and the shell. The second one must not end the cleaning, and
no more must Ctrl-C from a hand that presses it several times."""

Handler = Callable[[int, FrameType | None], Any] | int | None


def undo_inherited() -> Mapping[signal.Signals, Handler]:
    """Undo what the program that started this one may have left behind. Only the main thread can call it.

    Where SIGCHLD is ignored, the kernel throws away how children end, and Python takes every child for a success. A
    signal that is blocked ends nothing; no one blocks one on purpose for another program, as `nohup` ignores one.

    Returns:
        As `end_on_signals`.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, *_SIGNALS))
    if signal.getsignal(signal.SIGCHLD) != signal.SIG_IGN:
        return {}
    return {signal.SIGCHLD: signal.signal(signal.SIGCHLD, signal.SIG_DFL)}


def end_on_signals() -> Mapping[signal.Signals, Handler]:
    """Raise KeyboardInterrupt at SIGTERM, SIGHUP and SIGQUIT, as Python does at SIGINT, and `undo_inherited`. Only the
    main thread can call it.

    Further ones within a second of the last have no effect. A signal that is ignored stays ignored (`nohup`), and one
    that has a handler keeps it.

    Returns:
        The handlers of before, of the signals that have another one now.
    """
    last = float("-inf")

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        again, last = now - last < _SAME_SECONDS, now
        if not again:
            raise KeyboardInterrupt

    before = dict(undo_inherited())
    for number in (signal.SIGINT, *_SIGNALS):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = signal.signal(number, interrupt)
    return before


def ignore_further() -> None:
    """Have no signal but SIGKILL change how this process ends. Call it last."""
    for number in (signal.SIGINT, *_SIGNALS):
        signal.signal(number, signal.SIG_IGN)


def restore(handlers: Mapping[signal.Signals, Handler]) -> None:
    """Put back what `end_on_signals` returned."""
    for number, handler in handlers.items():
        signal.signal(number, handler)
