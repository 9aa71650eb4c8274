"""Processes that do jobs, each one after the other: torch is imported once in each, and boards wait for the next job.

A process reads jobs from stdin, and writes answers to stdout; the answer `DONE` ends the job. Jobs and answers are any
values that can be pickled, each behind its length: what ends in the middle of one is not taken for another.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from ethos_hil.base.file_lock import Writing
from ethos_hil.base.process import end_child, end_on_signals, start_child

DONE = "done"
NO_END = "no end within"
"""How the end of a process is said that was killed as it said nothing for too long."""
_TICK = 0.5
_END = 30.0
"""Seconds that an interrupted process has to stop its boards."""

_Job = TypeVar("_Job")


class WorkerCrew(Generic[_Job]):
    """Some processes. Each dies with this one; one that ends in the middle of a job is replaced."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        folder: Path,
        log: Callable[[int], Path],
        processes: int,
        patience: Callable[[_Job], float] | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            module: what each process runs, `python -m MODULE ARGUMENTS`.
            arguments: its arguments.
            folder: its working directory.
            log: the file of what a process says on stderr, by its number.
            processes: how many.
            patience: seconds that a process may say nothing of a job, as it is now; then it is killed. Default: for
                ever, as jobs with limits of their own need no other.
        """
        self._command = [sys.executable, "-m", module, *arguments]
        self._folder = folder
        self._log = log
        self._count = processes
        self._patience = patience
        self._heard: dict[subprocess.Popen[bytes], tuple[_Job, float]] = {}
        self._late: dict[int, float] = {}
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()  # None, once for each thread: no more
        self._drawn = False
        self._news = threading.Event()  # a job was taken, or a thread ends for its problem
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(
        self,
        jobs: Iterable[_Job],
        *,
        report: Callable[[_Job, Any], None],
        lost: Callable[[_Job, str], _Job | None],
        tick: Callable[[], bool | None],
    ) -> None:
        """Do all jobs.

        Args:
            jobs: what to do. The next one is drawn, in this thread, when the one before was taken.
            report: called with each answer of a process to a job, but `DONE`; from one thread of several.
            lost: called with a job whose process ended in the middle, and how; it returns what is left to do of it.
            tick: called every half second, in this thread; where it returns True it has more to do, and is called
                again at once.

        Raises:
            OSError: what `report` and `lost` raise, and what `jobs` and `tick` do.
        """
        threads = [threading.Thread(target=self._work, args=(number, report, lost)) for number in range(self._count)]
        try:
            for thread in threads:
                thread.start()
            self._wait_for(threads, iter(jobs), tick)
        except BaseException:
            self._stop.set()
            self._end_jobs()
            for process in self._processes:
                process.terminate()
                process.send_signal(signal.SIGCONT)  # one that is stopped ends only when it goes on
            raise
        finally:
            for thread in threads:
                if thread.ident is not None:  # it was started
                    thread.join()
        if self._problem is not None:
            raise self._problem

    def _wait_for(
        self, threads: Sequence[threading.Thread], jobs: Iterator[_Job], tick: Callable[[], bool | None]
    ) -> None:
        """Draw jobs, and wait until all are done. A process that says nothing for too long is ended."""
        ticked, more = time.monotonic(), False
        while working := [thread for thread in threads if thread.is_alive()]:
            self._news.clear()
            if not self._drawn and self._jobs.empty():
                job = None if self._stop.is_set() else next(jobs, None)
                if job is None:
                    self._end_jobs()
                else:
                    self._jobs.put(job)
            if self._patience is not None:
                self._end_silent(self._patience)
            if more or time.monotonic() - ticked >= _TICK:
                more, ticked = bool(tick()), time.monotonic()
            elif self._drawn:
                working[0].join(_TICK)
            elif not self._jobs.empty():
                self._news.wait(_TICK)

    def _end_jobs(self) -> None:
        """Have each thread end when it asks for a job."""
        self._drawn = True
        for _ in range(self._count):
            self._jobs.put(None)

    def _end_silent(self, patience: Callable[[_Job], float]) -> None:
        for process, (job, heard) in list(self._heard.items()):
            limit = patience(job)
            if time.monotonic() - heard > limit:
                self._late[process.pid] = limit
                process.kill()

    def _work(self, number: int, report: Callable[[_Job, Any], None], lost: Callable[[_Job, str], _Job | None]) -> None:
        """Do jobs in a process until there are none. In a thread, which the process dies with."""
        process: subprocess.Popen[bytes] | None = None
        rest: _Job | None = None
        try:
            while not self._stop.is_set():
                job = self._jobs.get() if rest is None else rest
                self._news.set()
                if job is None:
                    return
                if process is None or process.poll() is not None:
                    process = self._start(number)
                done = self._did(process, job, report) or self._stop.is_set()
                rest = None if done else lost(job, self._ending(process))
        except BaseException as error:
            self._problem = self._problem or error
            self._stop.set()
        finally:
            if process is not None:
                end_child(process, _END)
            self._news.set()

    def _did(self, process: subprocess.Popen[bytes], job: _Job, report: Callable[[_Job, Any], None]) -> bool:
        """Have a process do a job. Return whether it did, and did not end before."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._heard[process] = job, time.monotonic()
        try:
            _send(process.stdin, job)
            for answer in _values(process.stdout):
                if isinstance(answer, str) and answer == DONE:
                    return True
                report(job, answer)
                self._heard[process] = job, time.monotonic()
        except BrokenPipeError:
            pass
        finally:
            del self._heard[process]
        return False

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        with self._log(number).open("ab") as log:
            process = start_child(self._command, cwd=self._folder, stdin=subprocess.PIPE, stderr=log)
        self._processes.append(process)
        return process

    def _ending(self, process: subprocess.Popen[bytes]) -> str:
        """Return how a process has ended, which has closed its stdout. One that did only that is ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END)
        process.kill()
        status = process.wait()
        if process.pid in self._late:
            return f"{NO_END} {self._late[process.pid]:g} seconds"
        return f"signal {-status}" if status < 0 else f"status {status}"


def line_of_error(error: OSError, folder: Path) -> str:
    """Return the line with which a process says that a file cannot be read or written; by default `folder`."""
    where = error.filename2 or error.filename or folder
    return json.dumps([error.errno, error.strerror or str(error), os.fsdecode(where)])


def error_of_line(message: str) -> OSError:
    """Return the error of a line of `line_of_error`; of any other line one that quotes it."""
    try:
        number, why, where = json.loads(message)
    except (ValueError, TypeError):
        return OSError(message)
    return OSError(number, why, where)


def serve(folder: Path | None, work: Callable[[Iterable[Any]], Generator[Any]]) -> None:
    """Do jobs until there are no more, in a process of a crew.

    A file that cannot be read or written ends it, and is told where it writes a run folder.

    Args:
        folder: the run folder, or None.
        work: takes all jobs, and yields what is answered.
    """
    jobs, answers = _own_streams()
    end_on_signals()
    writing = None if folder is None else Writing(folder)
    try:
        with contextlib.closing(work(_values(jobs))) as replies:
            for reply in replies:
                _send(answers, reply)
    except OSError as error:
        if folder is None:
            raise
        _send(answers, line_of_error(error, folder))
    finally:
        if writing is not None:
            writing.close()


_LENGTH = struct.Struct("<Q")


def _send(stream: IO[bytes], value: object) -> None:
    data = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _values(stream: IO[bytes]) -> Iterator[Any]:
    """Yield the values that come, until the stream ends, be it in the middle of one."""
    while len(head := stream.read(_LENGTH.size)) == _LENGTH.size:
        (size,) = _LENGTH.unpack(head)
        data = stream.read(size)
        if len(data) < size:
            return
        yield pickle.loads(data)


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return stdin and stdout, in a process of a crew. A model that reads or prints has others from now on."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return jobs, answers
