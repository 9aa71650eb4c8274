"""Worker processes that a signal has stopped: they neither answer nor end, so somebody waits for them for ever."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from types import TracebackType

from ethos_hil.base.process import state_of

_TOLD, _ENDED = 5.0, 60.0
"""Seconds after which one is named on stderr, and after which it is ended. What runs for long is not stopped, and has
limits of its own: a target that of `--timeout`, and tosa_reference_model one of CPU time."""
_TICK = 1.0


class StoppedProcesses:
    """Looks at some processes in a thread. One that is stopped by a signal for long is told of, and then killed.

    Whoever waits for it sees its end then, as if it had crashed, and finds its number in `ended`.
    """

    def __init__(self, tell_after: float | None = None, end_after: float | None = None) -> None:
        """Look at nothing yet.

        Args:
            tell_after, end_after: seconds after which one is reported, and ended.
        """
        self._told_after = _TOLD if tell_after is None else tell_after
        self._ended_after = _ENDED if end_after is None else end_after
        self._lock = threading.Lock()
        self._watched: dict[int, str] = {}
        self._since: dict[int, float] = {}
        self._told: set[int] = set()
        self.ended: set[int] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_again, daemon=True)

    def __enter__(self) -> StoppedProcesses:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()  # it ends within milliseconds: it never waits for anything else

    def watch(self, process: int, what: str) -> None:
        """Look at a child from now on, until `forget`, or say otherwise what it does."""
        with self._lock:
            self._watched[process] = what

    def forget(self, process: int) -> None:
        """Look at it no more; to be called before it is reaped, as its number may be another process's then."""
        with self._lock:
            self._watched.pop(process, None)

    def _look_again(self) -> None:
        while not self._over.wait(min(_TICK, self._ended_after / 4)):
            with self._lock:
                for process, what in self._watched.items():
                    self._look(process, what)

    def _look(self, process: int, what: str) -> None:
        if process in self.ended:
            return
        if state_of(process) != "T":  # a debugger that looks at it has not stopped it
            self._since.pop(process, None)
            self._told.discard(process)
            return
        silent = time.monotonic() - self._since.setdefault(process, time.monotonic())
        if silent >= self._ended_after:
            self.ended.add(process)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        elif silent >= self._told_after and process not in self._told:
            self._told.add(process)
            left = f"it is ended {self._ended_after - silent:.0f} s from now"
            sys.stderr.write(
                f"ethos-hil: the worker process {process}, which has {what}, is stopped; "
                f"`kill -CONT {process}` lets it go on, or {left}\n"
            )
            sys.stderr.flush()
