"""Checks many programs in worker processes: one that hangs or crashes costs that check, not the run."""

from __future__ import annotations

import faulthandler
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from traceback import format_exception_only

from ethos_hil.lowering.testing.tosa_program import TosaProgram
from ethos_hil.suites.lab.conformance.check import CheckEnding, Checker, CheckResult

Find = Callable[[str], TosaProgram]  # a function of a module: workers import it
Place = tuple[str, str]  # configuration, memory mode
CONTEXT: SpawnContext | ForkContext = get_context("spawn")  # workers share nothing with the process that reports
LIMIT_SECONDS = 60.0  # for one check; the slowest, MobileNetV2's first with the reference, takes seconds


@dataclass
class Worker:
    """A process that checks one program at a time.

    Attributes:
        program: what it works on, None when idle.
        left: where it has still to be checked, the current place first.
        since: when the current check began.
        said: where its standard error goes.
    """

    process: BaseProcess
    connection: Connection
    said: Path
    program: str | None = None
    left: list[Place] = field(default_factory=list)
    since: float = 0.0

    def give(self, program: str, places: Sequence[Place]) -> None:
        """Starts on a program."""
        self.program, self.left, self.since = program, list(places), monotonic()
        self.connection.send((program, self.left))

    def take(self) -> CheckResult:
        """Its next verdict. EOFError when it died."""
        verdict: CheckResult = self.connection.recv()
        self.left.pop(0)
        self.since = monotonic()
        if not self.left:
            self.program = None
        return verdict

    def stop(self) -> None:
        """Ends it, whatever it does."""
        self.connection.close()
        self.process.kill()
        self.process.join()


def catalogued(name: str) -> TosaProgram:
    """A program of the conformance run."""
    from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS

    return PROGRAMS[name]


def run(
    programs: Sequence[str],
    places: Sequence[Place],
    jobs: int,
    limit: float = LIMIT_SECONDS,
    find: Find = catalogued,
) -> Iterator[CheckResult]:
    """Checks every program at every place; verdicts come as they are made. Workers find programs by their names."""
    waiting: list[tuple[str, Sequence[Place]]] = [(program, places) for program in reversed(programs)]
    with tempfile.TemporaryDirectory() as folder:
        workers = [_start(Path(folder), number, find) for number in range(min(jobs, len(programs)))]
        try:
            while True:
                for worker in workers:
                    if worker.program is None and waiting:
                        worker.give(*waiting.pop())
                busy = [worker for worker in workers if worker.program is not None]
                if not busy:
                    return
                ready = wait([worker.connection for worker in busy], timeout=1.0)
                for worker in busy:
                    assert worker.program is not None
                    reason = ""
                    if worker.connection in ready:
                        try:
                            yield worker.take()
                        except EOFError:
                            worker.process.join()
                            reason = f"the process ended with {worker.process.exitcode}: {_last_words(worker.said)}"
                    elif monotonic() - worker.since > limit:
                        reason = f"no answer within {limit:g} seconds"
                    if reason:
                        npu, mode = worker.left.pop(0)
                        yield CheckResult(worker.program, npu, mode, CheckEnding.BROKEN, reason)
                        if worker.left:
                            waiting.append((worker.program, worker.left))
                        worker.stop()
                        workers[workers.index(worker)] = _start(Path(folder), len(workers), find)
        finally:
            for worker in workers:
                worker.stop()


def _start(folder: Path, number: int, find: Find) -> Worker:
    ours, theirs = CONTEXT.Pipe()
    said = folder / f"worker{number}-{monotonic()}"
    process = CONTEXT.Process(target=_work, args=(theirs, said, find), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours, said)


def _work(connection: Connection, said: Path, find: Find) -> None:
    """A worker's life: programs in, verdicts out, until nobody asks."""
    with said.open("wb") as file:
        os.dup2(file.fileno(), 2)  # tools chatter there; a crash's stack ends up in it, too
    faulthandler.enable()
    while True:
        try:
            name, places = connection.recv()
        except EOFError:
            return
        checker = Checker(find(name))
        for npu, mode in places:
            try:
                verdict = checker.check(npu, mode)
            except Exception as error:
                reason = "".join(format_exception_only(error)).strip()
                verdict = CheckResult(name, npu, mode, CheckEnding.BROKEN, f"{reason}{_origin(error)}")
            connection.send(verdict)


def _origin(error: Exception) -> str:
    """Where an exception comes from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace else ""


def _last_words(said: Path) -> str:
    lines = said.read_text(errors="replace").splitlines()
    return " / ".join(line.strip() for line in lines[-40:] if "File " in line)[:300] or "it said nothing"
