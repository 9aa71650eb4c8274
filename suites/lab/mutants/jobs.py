"""The boots of mutants, as work for worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.mutants.mutate import Mutant, Original, make
from ethos_hil.suites.lab.mutants.trial import BUG, GIVE_UP_SECONDS, MutantEnding, examine


@dataclass(frozen=True)
class MutantSession:
    """What all mutants of a session share.

    Attributes:
        originals: what they are made of.
        firmware: the ELF for each system on chip.
        seed: of all randomness.
        folder: where those with findings are written.
    """

    originals: tuple[Original, ...]
    firmware: Mapping[str, bytes]
    seed: int
    folder: Path

    def run(self, numbers: Sequence[int], workers: int) -> Iterator[MutantEnding]:
        """Boot the mutants of these numbers, and yield how each ends."""
        # A job for each original: a worker reads its fields once.
        count = len(self.originals)
        shares = [tuple(number for number in numbers if number % count == index) for index in range(count)]
        yield from Crew(workers, 2 * GIVE_UP_SECONDS).run([MutantJob(self, share) for share in shares])

    def mutant(self, number: int) -> Mutant:
        """Return the mutant of a number."""
        return make(self.seed, number, self.originals)

    def examine(self, number: int) -> MutantEnding:
        """Boot one mutant in this process. Return how it ends."""
        mutant = self.mutant(number)
        return self.kept(mutant, examine(mutant, self.firmware))

    def kept(self, mutant: Mutant, ending: MutantEnding) -> MutantEnding:
        """Return the ending. If it is a finding, write the mutant to the folder."""
        if ending.finding:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{str(mutant).replace(' ', '-')}.pte").write_bytes(mutant.pte)
        return ending


@dataclass(frozen=True)
class MutantJob:
    """The mutants of one original.

    Attributes:
        session: what they share with all others.
        numbers: theirs.
    """

    session: MutantSession
    numbers: tuple[int, ...]

    @property
    def count(self) -> int:
        """One item for each mutant."""
        return len(self.numbers)

    def prepare(self) -> Callable[[int], MutantEnding]:
        """Return the function that boots a mutant. There is nothing to prepare."""
        return lambda item: self.session.examine(self.numbers[item])

    def lost(self, item: int, reason: str) -> MutantEnding:
        """Return the ending of a mutant that ended the process which booted it, or hung in it."""
        mutant = self.session.mutant(self.numbers[item])
        return self.session.kept(mutant, MutantEnding(mutant.number, str(mutant), mutant.way, BUG, reason, 0.0))
