"""Progress of a run, and the classes that show it on stderr; stdout is for results."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from ethos_hil.base.console import console
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.terminal.standard_streams import OutputFile, text_stream


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


class Live:
    """A spinner with a bar on a terminal; elsewhere a line for each stage."""

    def __init__(self) -> None:
        # An own file: lowering redirects descriptors 1 and 2 while noisy libraries run.
        own = OutputFile(os.dup(sys.stderr.fileno()), own=True)
        self._file = text_stream(own, getattr(sys.stderr, "encoding", None))
        stderr = console(self._file)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._stage = ""
        if stderr.is_terminal:
            self._progress = Progress(
                SpinnerColumn("dots" if stderr.encoding.startswith("utf") else "line"),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=stderr,
                transient=True,
            )

    def __enter__(self) -> Live:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._file.close()

    def stage(self, text: str) -> None:
        """Start a new stage, or say what is done within it: the third and further parts of a text with colons."""
        text = one_line(text)
        stage = ": ".join(text.split(": ")[:2])
        same, self._stage = stage == self._stage, stage
        if self._progress is None:
            if not same:
                self._file.write(f"{text} ...\n")
            return
        if same and self._task is not None:
            self._progress.update(self._task, description=text)
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(text, total=None)

    def step(self, done: int, total: int) -> None:
        """Report that `done` of `total` steps of the stage are finished."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)
