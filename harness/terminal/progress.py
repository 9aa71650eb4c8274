"""Progress of a run, and the classes that show it on stderr; stdout is for results."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from ethos_hil.base.console import console
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.terminal.standard_streams import OutputFile, text_stream

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_SILENCE = 2.0
"""Seconds after which a stage that goes on is named again."""
_LONG, _LONG_SILENCE = 10.0, 10.0
"""A stage that has lasted for so many seconds is named again after so many."""


class Reporter(Protocol):
    """Receives the progress of a run."""

    def stage(self, text: str) -> None:
        """Start a new stage."""

    def step(self, done: int, total: int) -> None:
        """Report that `done` of `total` steps of the stage are finished."""


class Silent:
    """Progress that prints nothing."""

    def stage(self, text: str) -> None:
        """Do nothing."""

    def step(self, done: int, total: int) -> None:
        """Do nothing."""


@contextmanager
def late(text: str) -> Iterator[None]:
    """Show a stage if it lasts longer than two seconds; one that does not is not mentioned."""
    shown: list[Live] = []

    def begin() -> None:
        live = Live().__enter__()
        shown.append(live)
        live.stage(text)

    timer = threading.Timer(_SILENCE, begin)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for live in shown:
            live.__exit__(None, None, None)


class Live:
    """A spinner with a bar on a terminal; elsewhere a line for each stage.

    A long stage has more lines: one every two seconds, and after ten seconds one every ten.
    """

    def __init__(self) -> None:
        # An own file: lowering redirects descriptors 1 and 2 while noisy libraries run.
        own = OutputFile(os.dup(sys.stderr.fileno()), own=True)
        self._file = text_stream(own, getattr(sys.stderr, "encoding", None))
        stderr = console(self._file)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._stage = ""
        self._latest = ""
        self._steps = ""
        self._began = self._written = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._beat: threading.Thread | None = None
        if stderr.is_terminal:
            from rich import progress  # late: it takes 15 ms

            self._progress = progress.Progress(
                progress.SpinnerColumn("dots" if stderr.encoding.startswith("utf") else "line"),
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(bar_width=24),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                console=stderr,
                transient=True,
            )

    def __enter__(self) -> Live:
        if self._progress is not None:
            self._progress.start()
        else:
            self._beat = threading.Thread(target=self._say_what_goes_on, daemon=True)
            self._beat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._ended.set()
        if self._beat is not None:
            self._beat.join()
        self._file.close()

    def stage(self, text: str) -> None:
        """Start a new stage, or say what is done within it: the third and further parts of a text with colons."""
        text = one_line(text)
        stage = ": ".join(text.split(": ")[:2])
        same, self._stage = stage == self._stage, stage
        self._latest, self._steps = text, self._steps if same else ""
        if self._progress is None:
            if not same:
                self._began = time.monotonic()
                self._write(f"{text} ...")
            return
        if same and self._task is not None:
            self._progress.update(self._task, description=text)
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(text, total=None)

    def step(self, done: int, total: int) -> None:
        """Report that `done` of `total` steps of the stage are finished."""
        self._steps = f", {done} of {total}"
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def _say_what_goes_on(self) -> None:
        """Write a line where none was written for some time, until the end."""
        while not self._ended.wait(max(0.0, self._due() - time.monotonic())):
            if self._latest and time.monotonic() >= self._due():
                self._write(f"{self._latest}{self._steps} ({time.monotonic() - self._began:.0f} s) ...")
            elif not self._latest:
                self._written = time.monotonic()

    def _due(self) -> float:
        """Return when the next line is due, unless one is written before."""
        return self._written + (_SILENCE if self._written < self._began + _LONG else _LONG_SILENCE)

    def _write(self, line: str) -> None:
        with self._lock:
            self._file.write(f"{line}\n")
            self._written = time.monotonic()
