"""Examines many mutants in worker processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from ethos_hil.suites.lab.mutants.mutate import Original, make
from ethos_hil.suites.lab.mutants.trial import Ending, examine

_CHUNK = 10
_session: MutantSession


@dataclass(frozen=True)
class MutantSession:
    """What all mutants of a session share.

    Attributes:
        originals: what they are made of.
        firmware: the ELF for each system on chip.
        seed: of all randomness.
        folder: where those with findings are written to.
    """

    originals: tuple[Original, ...]
    firmware: Mapping[str, bytes]
    seed: int
    folder: Path

    def run(self, numbers: Sequence[int], jobs: int) -> Iterator[Ending]:
        """How mutants of these numbers end, in order. A worker that dies ends the session with BrokenProcessPool."""
        with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin, initargs=(self,)) as pool:
            yield from pool.map(_examine, numbers, chunksize=_CHUNK)

    def examine(self, number: int) -> Ending:
        """How one ends; in this process."""
        mutant = make(self.seed, number, self.originals)
        ending = examine(mutant, self.firmware)
        if ending.finding:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{str(mutant).replace(' ', '-')}.pte").write_bytes(mutant.pte)
        return ending


def _begin(session: MutantSession) -> None:
    global _session
    _session = session


def _examine(number: int) -> Ending:
    return _session.examine(number)
