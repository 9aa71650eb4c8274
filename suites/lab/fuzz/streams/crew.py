"""Runs cases in worker processes: one that crashes or hangs is a finding, and costs that case, not the run."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import random
import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic

from ethos_hil.suites.lab.fuzz.streams.case import StreamCase
from ethos_hil.suites.lab.fuzz.streams.trial import CaseEnding, examine

BLOCK = 250  # cases made from the same programs
PROGRAMS = 12  # in a block
PREPARE_SECONDS = 300.0  # for the programs of a block
HANG_SECONDS = 15.0  # after which a case is given up
MEMORY_BYTES = 1 << 30  # what a worker may ask for beyond what it has when it begins
HAZARDS_EVERY = 4
CRASHED = "crashed"
READY, DONE = "ready", "done"  # what a worker says before and after the cases of a block


@dataclass(frozen=True)
class CaseRange:
    """Cases [first, end) of number `index` of a configuration's blocks.

    Attributes:
        npu: the configuration.
        seed: of all randomness.
        index: which block of the configuration.
        count: of cases.
        only: part of the names of the programs to use.
    """

    npu: str
    seed: int
    index: int
    count: int
    only: str = ""

    def rng(self, purpose: str) -> random.Random:
        """A source of randomness."""
        return random.Random(f"{self.seed}/{self.npu}/{self.index}/{purpose}")

    def cases(self, first: int = 0) -> Iterator[StreamCase]:
        """Makes the cases from number `first` on."""
        from ethos_hil.suites.lab.fuzz.streams.corpus import seeds
        from ethos_hil.suites.lab.fuzz.streams.mutate import make

        found = seeds(self.npu, self.rng("programs"), min(PROGRAMS, max(2, self.count // 10)), self.only)
        for number in range(first, self.count):
            rng = self.rng(str(number))
            yield make(rng, rng.choice(found), found)


@dataclass(frozen=True)
class Examined:
    """A case's end; `file` has the case if there is something wrong with it."""

    npu: str
    verdict: CaseEnding
    file: Path | None = None


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    said: Path
    block: CaseRange | None = None
    done: int = 0
    ready: bool = False
    since: float = 0.0

    def give(self, block: CaseRange, first: int = 0) -> None:
        self.block, self.done, self.ready, self.since = block, first, False, monotonic()
        self.connection.send((block, first))

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


@dataclass
class Crew:
    """Workers.

    Attributes:
        jobs: their number.
        folder: where cases with findings are written to.
        prepare: is called in each worker before it begins; must be importable. Tests damage the model there.
        hang: seconds after which a case is given up.
    """

    jobs: int
    folder: Path
    prepare: Callable[[], None] | None = None
    hang: float = HANG_SECONDS
    _workers: list[_Worker] = field(default_factory=list)

    def run(self, blocks: Sequence[CaseRange]) -> Iterator[Examined]:
        """Examines every case of the blocks, in any order."""
        waiting = [(block, 0) for block in reversed(blocks)]
        with tempfile.TemporaryDirectory() as folder:
            said = Path(folder)
            self._workers = [self._start(said) for _ in range(min(self.jobs, len(blocks)))]
            try:
                while True:
                    for worker in self._workers:
                        if worker.block is None and waiting:
                            worker.give(*waiting.pop())
                    busy = [worker for worker in self._workers if worker.block is not None]
                    if not busy:
                        return
                    ready = wait([worker.connection for worker in busy], timeout=1.0)
                    for worker in busy:
                        yield from self._served(worker, worker.connection in ready, waiting, said)
            finally:
                for worker in self._workers:
                    worker.stop()

    def _served(
        self, worker: _Worker, ready: bool, waiting: list[tuple[CaseRange, int]], said: Path
    ) -> Iterator[Examined]:
        """What a worker has to say, or the end of one that says nothing any more."""
        block = worker.block
        assert block is not None
        reason = ""
        if ready:
            try:
                said_now: Examined | str = worker.connection.recv()
            except EOFError:
                worker.process.join()
                reason = f"the process ended with {worker.process.exitcode}: {_last_words(worker.said)}"
            else:
                worker.since, worker.ready = monotonic(), True
                if isinstance(said_now, Examined):
                    worker.done += 1
                    yield said_now
                elif said_now == DONE:
                    worker.block = None
                return
        elif monotonic() - worker.since > (self.hang if worker.ready else PREPARE_SECONDS):
            reason = f"no end within {self.hang:g} seconds"
        if reason:
            case = next(block.cases(worker.done))
            file = self.folder / f"{block.npu}-{block.seed}-{block.index}-{worker.done}.json"
            case.save(file, reason)
            yield Examined(block.npu, CaseEnding(CRASHED, finding=reason), file)
            if worker.done + 1 < block.count:
                waiting.append((block, worker.done + 1))
            worker.stop()
            self._workers[self._workers.index(worker)] = self._start(said)

    def _start(self, said: Path) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        file = said / f"{monotonic()}"
        process = context.Process(target=_work, args=(theirs, file, self.folder, self.prepare), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, file)


def _work(connection: Connection, said: Path, folder: Path, prepare: Callable[[], None] | None) -> None:
    """A worker's life: blocks in, ends of cases out, until nobody asks."""
    with said.open("wb") as file:
        os.dup2(file.fileno(), 2)
    faulthandler.enable()
    if prepare is not None:
        prepare()
    while True:
        try:
            block, first = connection.recv()
        except EOFError:
            return
        for number, case in enumerate(block.cases(first), first):
            if number == first:
                connection.send(READY)
                limit_memory()  # only now, since the compiler, which is loaded by now, reserves a lot
            verdict = examine(case, hazards=number % HAZARDS_EVERY == 0)
            path = None
            if verdict.finding:
                path = folder / f"{block.npu}-{block.seed}-{block.index}-{number}.json"
                case.save(path, verdict.finding)
            connection.send(Examined(block.npu, verdict, path))
        connection.send(DONE)


def limit_memory() -> None:
    """Lets this process have no more than MEMORY_BYTES in addition to what it has, unless it is limited already."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _last_words(said: Path) -> str:
    lines = said.read_text(errors="replace").splitlines()
    return " / ".join(line.strip() for line in lines[-40:] if "File " in line)[:300] or "it said nothing"
