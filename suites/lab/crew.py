"""Runs jobs in worker processes: an item of work that crashes or hangs costs that item, not the run.

A job is a row of items that share a preparation, such as the checks of one program. A worker takes a job, prepares it
once and sends the result of each item. When it dies or takes too long, the item it was at is lost, and another worker
takes the rest of the job.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from traceback import extract_tb, format_exception_only
from typing import Generic, Protocol, TypeVar

from ethos_hil.base.process import dies_with

Result = TypeVar("Result")
Made = TypeVar("Made", covariant=True)
_PREPARE_SECONDS = 300.0  # for the start of a process and for what a job prepares: imports, compilations
_LAST_LINES = 40  # of a dead worker's standard error, among which the stack is


class Job(Protocol[Made]):
    """Items of work that share a preparation. It is pickled, so workers must be able to import its class."""

    @property
    def count(self) -> int:
        """How many items there are."""

    def prepare(self) -> Callable[[int], Made]:
        """Make what the items share, in the worker. Return the function that does the item of a number."""

    def lost(self, item: int, reason: str) -> Made:
        """Return the result of an item that crashed, hung or raised. The process that started the crew calls it."""


@dataclass(frozen=True)
class _Done(Generic[Result]):
    result: Result


@dataclass(frozen=True)
class _Raised:
    reason: str


@dataclass(frozen=True)
class _WorkerReady:
    pass


@dataclass(frozen=True)
class _Rest(Generic[Result]):
    """What is left of a job: its items from `first` on."""

    job: Job[Result]
    first: int = 0


class _Worker(Generic[Result]):
    def __init__(self, folder: Path, begin: Callable[[], None] | None) -> None:
        context = multiprocessing.get_context("spawn")  # workers share nothing with the process that reports
        self._said = folder / f"{monotonic()}"
        self.connection, theirs = context.Pipe()
        arguments = (theirs, self._said, begin, os.getpid())
        self._process: BaseProcess = context.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self.rest: _Rest[Result] | None = None
        self._ready = False
        self._since = 0.0

    def give(self, rest: _Rest[Result]) -> None:
        self.rest, self._ready, self._since = rest, False, monotonic()
        self.connection.send(rest)

    def take(self) -> Iterator[Result]:
        """Yield the result that it has sent, if any. Raise EOFError when it is dead."""
        message: _Done[Result] | _Raised | _WorkerReady = self.connection.recv()
        self._ready, self._since = True, monotonic()
        assert self.rest is not None
        if isinstance(message, _Done):
            yield message.result
        elif isinstance(message, _Raised):
            yield self.rest.job.lost(self.rest.first, message.reason)
        else:
            return
        self.advance()

    def advance(self) -> None:
        """Go on to the next item."""
        assert self.rest is not None
        following = self.rest.first + 1
        self.rest = _Rest(self.rest.job, following) if following < self.rest.job.count else None

    def late(self, seconds: float) -> bool:
        """Return whether it has worked on one item for longer than `seconds`, or prepared a job for too long."""
        return monotonic() - self._since > (seconds if self._ready else _PREPARE_SECONDS)

    def last_words(self) -> str:
        """Return how a dead worker ended."""
        self._process.join()
        lines = self._said.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        stack = " / ".join(line.strip() for line in lines if "File " in line)[:300]
        return f"the process ended with {self._process.exitcode}: {stack or 'it said nothing'}"

    def stop(self) -> None:
        """End it, whatever it does."""
        self.connection.close()
        self._process.kill()
        self._process.join()


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
        waiting: list[_Rest[Result]] = [_Rest(job) for job in reversed(jobs) if job.count]
        with tempfile.TemporaryDirectory(prefix="ethos-hil-crew-") as name:
            folder = Path(name)
            workers: list[_Worker[Result]] = [
                _Worker(folder, self.begin) for _ in range(min(self.workers, len(waiting)))
            ]
            try:
                while True:
                    for worker in workers:
                        if worker.rest is None and waiting:
                            worker.give(waiting.pop())
                    busy = [worker for worker in workers if worker.rest is not None]
                    if not busy:
                        return
                    ready = wait([worker.connection for worker in busy], timeout=1.0)
                    for worker in busy:
                        reason = ""
                        if worker.connection in ready:
                            try:
                                yield from worker.take()
                            except (EOFError, ConnectionResetError):
                                reason = worker.last_words()
                        elif worker.late(self.seconds):
                            reason = f"no end within {self.seconds:g} seconds"
                        if reason:
                            assert worker.rest is not None
                            yield worker.rest.job.lost(worker.rest.first, reason)
                            worker.advance()
                            waiting += [worker.rest] if worker.rest is not None else []
                            worker.stop()
                            workers[workers.index(worker)] = _Worker(folder, self.begin)
            finally:
                for worker in workers:
                    worker.stop()


def _work(connection: Connection, log: Path, begin: Callable[[], None] | None, parent: int) -> None:
    """Be a worker: take jobs and send results until the connection closes."""
    dies_with(parent)()
    with log.open("wb") as file:  # what tools print goes there; the stack of a crash, too
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        faulthandler.enable(file)
        if begin is not None:
            begin()
        while True:
            try:
                rest = connection.recv()
            except EOFError:
                return
            for message in _results(rest):
                connection.send(message)


def _results(rest: _Rest[Result]) -> Iterator[_Done[Result] | _Raised | _WorkerReady]:
    """Yield the messages about a job: one when it is prepared, and one for each item."""
    items = range(rest.first, rest.job.count)
    try:
        do = rest.job.prepare()
    except Exception as error:
        yield from (_Raised(f"preparing: {_described(error)}") for _ in items)
        return
    yield _WorkerReady()
    for item in items:
        try:
            result = do(item)
        except Exception as error:
            yield _Raised(_described(error))
        else:
            yield _Done(result)


def _described(error: Exception) -> str:
    """Return an exception as text, with the line that raised it."""
    frames = extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return "".join(format_exception_only(error)).strip() + where
