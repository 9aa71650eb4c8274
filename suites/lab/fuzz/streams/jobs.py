"""The fuzzer's work for worker processes. A case that crashes or hangs is a finding."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.suites.lab.fuzz.streams.case import StreamCase
from ethos_hil.suites.lab.fuzz.streams.trial import CaseEnding, examine

BLOCK = 250  # cases made from the same programs
PROGRAMS = 12  # in a block
HANG_SECONDS = 15.0  # after which a case is given up
MEMORY_BYTES = 1 << 30  # what a worker may ask for beyond what it has when it starts
HAZARDS_EVERY = 4
CRASHED = "crashed"


@dataclass(frozen=True)
class CaseRange:
    """A block of cases for one configuration.

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
        """Return the source of randomness for a purpose."""
        return random.Random(f"{self.seed}/{self.npu}/{self.index}/{purpose}")

    def maker(self) -> Callable[[int], StreamCase]:
        """Compile the programs. Return the function that makes the case of a number."""
        from ethos_hil.suites.lab.fuzz.streams.corpus import seeds
        from ethos_hil.suites.lab.fuzz.streams.mutate import make

        programs = seeds(self.npu, self.rng("programs"), min(PROGRAMS, max(2, self.count // 10)), self.only)

        def case(number: int) -> StreamCase:
            rng = self.rng(str(number))
            return make(rng, rng.choice(programs), programs)

        return case

    def cases(self, first: int = 0) -> Iterator[StreamCase]:
        """Yield the cases from number `first` on."""
        return map(self.maker(), range(first, self.count))


@dataclass(frozen=True)
class Examined:
    """How a case ended.

    Attributes:
        npu: its configuration.
        verdict: its end.
        file: has the case if there is something wrong with it.
    """

    npu: str
    verdict: CaseEnding
    file: Path | None = None


@dataclass(frozen=True)
class CaseJob:
    """The examination of a block of cases.

    Attributes:
        cases: the block.
        folder: where cases with findings are written.
    """

    cases: CaseRange
    folder: Path

    @property
    def count(self) -> int:
        """One item for each case."""
        return self.cases.count

    def prepare(self) -> Callable[[int], Examined]:
        """Compile the block's programs, and limit the memory of this process."""
        make = self.cases.maker()
        limit_memory()  # only now: the compiler, which is loaded by now, reserves a lot

        def run(number: int) -> Examined:
            case = make(number)
            return self._examined(number, case, examine(case, hazards=number % HAZARDS_EVERY == 0))

        return run

    def lost(self, item: int, reason: str) -> Examined:
        """Return the result of a case that crashed or hung. The case is made again, to be kept."""
        return self._examined(item, self.cases.maker()(item), CaseEnding(CRASHED, finding=reason))

    def _examined(self, number: int, case: StreamCase, verdict: CaseEnding) -> Examined:
        if not verdict.finding:
            return Examined(case.npu, verdict)
        file = self.folder / f"{case.npu}-{self.cases.seed}-{self.cases.index}-{number}.json"
        case.save(file, verdict.finding)
        return Examined(case.npu, verdict, file)


def limit_memory() -> None:
    """Limit this process to MEMORY_BYTES in addition to what it has, unless it is limited already."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
