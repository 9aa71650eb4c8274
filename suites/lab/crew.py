"""Runs items of work in the processes of a crew: one that crashes or hangs costs that item, not the run.

A job is a row of items that share a preparation, such as the checks of one program. A process takes a job, prepares it
once and answers with the result of each item. When it dies or takes too long, the item it was at is lost, and another
process does the rest of the job.
"""

from __future__ import annotations

import faulthandler
import queue
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from traceback import extract_tb, format_exception_only
from typing import Any, Generic, Literal, Protocol, TypeVar

from ethos_hil.base.crew import DONE, NO_END, WorkerCrew, serve
from ethos_hil.base.dataclasses import dataclass

Result = TypeVar("Result")
Made = TypeVar("Made", covariant=True)
_PREPARE_SECONDS = 300.0  # for the start of a process and for what a job prepares: imports, compilations
_LAST_LINES = 40  # of a dead process's standard error, among which the stack is


class Job(Protocol[Made]):
    """Items of work that share a preparation. It is pickled, so workers must be able to import its class."""

    @property
    def count(self) -> int:
        """How many items there are."""

    def prepare(self) -> Callable[[int], Made]:
        """Make what the items share, in the worker. Return the function that does the item of a number."""

    def lost(self, item: int, reason: str) -> Made:
        """Return the result of an item that crashed, hung or raised. The process that started the crew calls it."""


@dataclass
class _Rest(Generic[Result]):
    """What is left of a job.

    Attributes:
        job: the job.
        begin: what a process calls before its first job.
        first: the first item that is left.
        ready: whether the job is prepared in the process that has it.
        said: standard error of the process that has it, and how much of it is of earlier jobs.
    """

    job: Job[Result]
    begin: Callable[[], None] | None
    first: int = 0
    ready: bool = False
    said: tuple[str, int] = ("", 0)

    def __str__(self) -> str:
        return str(self.job)

    def last_words(self) -> str:
        """Return the stack with which the process died, if it left one."""
        path, before = self.said
        lines = Path(path).read_bytes()[before:].decode(errors="replace").splitlines() if path else []
        return " / ".join(line.strip() for line in lines[-_LAST_LINES:] if "File " in line)[:300] or "it said nothing"


Answer = tuple[Literal["taken", "ready", "done", "raised"], Any]
"""What a process says of the job it has: taken, with its standard error and how much that has; prepared; and of an item
its result, or why it has none."""


@dataclass(frozen=True)
class Crew:
    """Worker processes.

    Attributes:
        workers: how many.
        seconds: after which an item is lost.
        begin: a function that each worker calls before its first job. Tests damage the product in it.
    """

    workers: int
    seconds: float
    begin: Callable[[], None] | None = None

    def run(self, jobs: Sequence[Job[Result]]) -> Iterator[Result]:
        """Do every item of every job, and yield the results as they are made, those of one job in order."""
        run = _Run(self.seconds, [_Rest(job, self.begin) for job in jobs if job.count])
        with tempfile.TemporaryDirectory(prefix="ethos-hil-crew-") as name:
            thread = threading.Thread(target=run.do, args=(self.workers, Path(name)))
            thread.start()
            try:
                while (result := run.results.get()) is not _OVER:
                    yield result
            finally:
                run.unwanted.set()
                thread.join()
        if run.problem is not None:
            raise run.problem


_OVER: Any = object()
"""Comes after the last result."""


class _Run(Generic[Result]):
    """Has a crew do jobs, in a thread; the results are in a queue."""

    def __init__(self, seconds: float, jobs: Sequence[_Rest[Result]]) -> None:
        self.results: queue.SimpleQueue[Result] = queue.SimpleQueue()
        self.unwanted = threading.Event()
        self.problem: BaseException | None = None
        self._seconds = seconds
        self._jobs = jobs

    def do(self, workers: int, folder: Path) -> None:
        crew: WorkerCrew[_Rest[Result]] = WorkerCrew(
            "ethos_hil.suites.lab.crew",
            sys.path,  # a job's class may be of a test
            folder=Path.cwd(),
            log=lambda number: folder / str(number),
            processes=workers,
            patience=lambda rest: self._seconds if rest.ready else _PREPARE_SECONDS,
        )
        try:
            crew.run(self._jobs, report=self._report, lost=self._lose, tick=self._end_if_unwanted)
        except BaseException as error:
            self.problem = error
        self.results.put(_OVER)

    def _end_if_unwanted(self) -> None:
        if self.unwanted.is_set():
            raise InterruptedError("no one takes the results")

    def _report(self, rest: _Rest[Result], answer: Answer) -> None:
        match answer:
            case "taken", said:
                rest.said = said
            case "done", result:
                self._end_item(rest, result)
            case "raised", reason:
                self._end_item(rest, rest.job.lost(rest.first, reason))
        rest.ready = answer[0] != "taken"

    def _end_item(self, rest: _Rest[Result], result: Result) -> None:
        self.results.put(result)
        rest.first += 1

    def _lose(self, rest: _Rest[Result], how: str) -> _Rest[Result] | None:
        """Lose the item at which a process ended. Return the rest of its job."""
        if rest.first < rest.job.count:
            reason = how if how.startswith(NO_END) else f"the process ended with {how}: {rest.last_words()}"
            self._end_item(rest, rest.job.lost(rest.first, reason))
        rest.ready = False
        return rest if rest.first < rest.job.count else None


def work(jobs: Iterable[_Rest[Any]]) -> Generator[Any]:
    """Do jobs in a process of the crew, and yield what it answers with."""
    path = Path("/proc/self/fd/2").readlink()  # what tools print goes there; the stack of a crash, too
    begun = False
    for rest in jobs:
        yield "taken", (str(path), path.stat().st_size)
        if rest.begin is not None and not begun:
            rest.begin()
        begun = True
        yield from _answers(rest)
        yield DONE


def _answers(rest: _Rest[Any]) -> Iterator[Answer]:
    """Yield the answers about a job: one when it is prepared, and one for each item."""
    items = range(rest.first, rest.job.count)
    try:
        do = rest.job.prepare()
    except Exception as error:
        yield from (("raised", f"preparing: {_describe(error)}") for _ in items)
        return
    yield "ready", None
    for item in items:
        try:
            yield "done", do(item)
        except Exception as error:
            yield "raised", _describe(error)


def _describe(error: Exception) -> str:
    """Return an exception as text, with the line that raised it."""
    frames = extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return "".join(format_exception_only(error)).strip() + where


if __name__ == "__main__":
    sys.path[:] = sys.argv[1:]
    faulthandler.enable()
    serve(None, work)
