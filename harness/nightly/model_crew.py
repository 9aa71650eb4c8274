"""The processes that run a nightly's models, each one model after the other."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ethos_hil.harness.failed_record import failed_record
from ethos_hil.harness.nightly.model_worker import ModelJob
from ethos_hil.harness.nightly.night import SESSIONS
from ethos_hil.harness.process import dies_with
from ethos_hil.lowering.errors import EthosHilError
from ethos_hil.results.record import Record
from ethos_hil.results.store import RunFolder
from ethos_hil.results.verdict import FailureKind

_TICK = 0.5
_END = 30.0
"""Seconds that an interrupted process has to stop its boards."""


class ModelCrew:
    """Some processes. Each dies with this one; one that ends in the middle of a job is replaced."""

    def __init__(self, run_folder: RunFolder, folder: Path, processes: int) -> None:
        """Start nothing yet.

        Args:
            run_folder: where records go.
            folder: the working directory.
            processes: how many.
        """
        self._run_folder = run_folder
        self._folder = folder
        self._count = processes
        self._jobs: queue.SimpleQueue[ModelJob] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._processes: list[subprocess.Popen[str]] = []

    def run(self, jobs: Sequence[ModelJob], tick: Callable[[], None]) -> None:
        """Run all jobs; each leaves a record.

        Args:
            jobs: what to run.
            tick: called every half second.

        Raises:
            OSError: a record cannot be written.
        """
        for job in jobs:
            self._jobs.put(job)
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(min(self._count, len(jobs)))]
        for thread in threads:
            thread.start()
        try:
            while working := [thread for thread in threads if thread.is_alive()]:
                working[0].join(_TICK)
                tick()
        except BaseException:
            self._stop.set()
            for process in self._processes:
                process.terminate()
            raise
        finally:
            for thread in threads:
                thread.join()
        if self._problem is not None:
            raise self._problem

    def _work(self, number: int) -> None:
        """Do jobs in a process until there are none. In a thread, which the process dies with."""
        process: subprocess.Popen[str] | None = None
        try:
            while not self._stop.is_set():
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    return
                if process is None or process.poll() is not None:
                    process = self._started(number)
                answer = self._answer(process, job)
                if answer == "done":
                    continue
                if answer:
                    raise OSError(answer)
                if not self._stop.is_set():
                    self._run_folder.append(_ended(job, process), part=job.part.name, attempt=job.attempt)
        except BaseException as error:
            self._problem = self._problem or error
            self._stop.set()
        finally:
            if process is not None:
                self._end(process)

    def _answer(self, process: subprocess.Popen[str], job: ModelJob) -> str:
        """Return what a process says of a job; "" where it ended before."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(job.dumps())
            process.stdin.flush()
            return process.stdout.readline().rstrip("\n")
        except BrokenPipeError:
            return ""

    def _started(self, number: int) -> subprocess.Popen[str]:
        log = self._run_folder.path / SESSIONS / f"models-{number + 1}.log"
        with log.open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "ethos_hil.harness.nightly.model_worker", str(self._run_folder.path)],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                start_new_session=True,
                preexec_fn=dies_with(os.getpid()),
            )
        self._processes.append(process)
        return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _ended(job: ModelJob, process: subprocess.Popen[str]) -> Record:
    """Return the record of a job whose process ended in the middle of it."""
    status = process.wait()
    how = f"signal {-status}" if status < 0 else f"status {status}"
    error = EthosHilError(
        f"its process ended with {how} before there was an answer",
        kind=FailureKind.INTERNAL,
        hint="run it alone: ethos-hil run",
    )
    return failed_record(job.request, error)
