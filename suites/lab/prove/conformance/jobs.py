"""Checks many programs in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ethos_hil.lowering.testing.tosa_program import TosaProgram
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.prove.conformance.check import CheckEnding, Checker, CheckResult

Find = Callable[[str], TosaProgram]  # a function of a module: workers import it
Place = tuple[str, str]  # configuration, memory mode
LIMIT_SECONDS = 60.0  # for one check; the slowest, MobileNetV2's first with the reference, takes seconds


@dataclass(frozen=True)
class CheckJob:
    """The checks of one program.

    Attributes:
        program: its name.
        places: where it is checked.
        find: makes the program of a name.
    """

    program: str
    places: Sequence[Place]
    find: Find

    @property
    def count(self) -> int:
        """One check for each place."""
        return len(self.places)

    def prepare(self) -> Callable[[int], CheckResult]:
        """Make the graph."""
        checker = Checker(self.find(self.program))
        return lambda number: checker.check(*self.places[number])

    def lost(self, item: int, reason: str) -> CheckResult:
        """Return the result of a check that did not end."""
        return CheckResult(self.program, *self.places[item], CheckEnding.BROKEN, reason)


def catalogued(name: str) -> TosaProgram:
    """Return a program of the catalogue by its name."""
    from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS

    return PROGRAMS[name]


def run(
    programs: Sequence[str], places: Sequence[Place], workers: int, find: Find = catalogued
) -> Iterator[CheckResult]:
    """Check every program at every place, and yield the results as they are made."""
    return Crew(workers, LIMIT_SECONDS).run([CheckJob(name, places, find) for name in programs])
