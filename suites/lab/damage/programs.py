"""Damaged programs through the real firmware on the virtual board.

A boot with any .pte must end by itself, in results or in a refusal that the firmware names. A CPU exception, silence, a
broken conversation or a hang is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.socs.registry import virtual_soc
from ethos_hil.suites.lab.damage import boot, loop
from ethos_hil.suites.lab.damage.loop import DamageEnding
from ethos_hil.suites.lab.damage.mutant import Mutant, Original, make
from ethos_hil.suites.lab.options import CORES, Jobs, JsonFile

SEEDS = Path("build/fuzz/seeds/board")
_MOST_STEPS = 3


@dataclass(frozen=True)
class Programs:
    """The damaged programs of a seed.

    Attributes:
        originals: what they are made of, in turn.
        firmware: the ELF for each system on chip.
        seed: of all randomness.
        folder: where those with findings are written.
    """

    originals: tuple[Original, ...]
    firmware: Mapping[str, bytes]
    seed: int
    folder: Path
    title = "Booting damaged programs"
    seconds = (1 + _MOST_STEPS) * boot.GIVE_UP_SECONDS
    outcomes = boot.OUTCOMES

    @property
    def command(self) -> str:
        """The words of its command line."""
        return f"programs --seed {self.seed}"

    def kin(self, number: int) -> int:
        """Return the original: a worker reads its fields once."""
        return number % len(self.originals)

    def prepare(self, number: int) -> Callable[[int], DamageEnding]:
        """Return the function that boots a mutant. There is nothing to prepare."""
        return self.examine

    def examine(self, number: int) -> DamageEnding:
        """Boot one mutant in this process. Return how it ends, with as little damage as still shows a finding."""
        mutant = partial(make, self.seed, number, self.originals)
        kept, ending = loop.smallest(_MOST_STEPS, lambda kept: boot.examine(mutant(kept), self.firmware))
        return self._saved(mutant(kept), ending)

    def lost(self, number: int, reason: str) -> DamageEnding:
        """Return the ending of a mutant that ended the process which booted it, or hung in it."""
        mutant = make(self.seed, number, self.originals)
        return self._saved(mutant, DamageEnding(number, str(mutant), mutant.way, boot.BUG, finding=reason))

    def _saved(self, mutant: Mutant, ending: DamageEnding) -> DamageEnding:
        """Return the ending. If it is a finding, write the mutant to the folder."""
        if ending.finding:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{str(mutant).replace(' ', '-')}.pte").write_bytes(mutant.pte)
        return ending


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(help=f"Programs to damage, NAME.NPU.pte, or folders. Default: {SEEDS}.")
    ] = None,
    count: loop.Count = 500,
    seed: loop.Seed = 1,
    first: loop.First = 0,
    only: loop.Only = None,
    jobs: Jobs = CORES,
    folder: Annotated[Path, typer.Option(help="Where mutants with findings go.")] = Path("build/fuzz/mutants"),
    json_file: JsonFile = None,
) -> None:
    """Boot damaged programs on the virtual board; find whatever does not end in results or a named refusal."""
    originals = tuple(Original.load(file) for file in _files(files or [SEEDS]))
    socs = {virtual_soc(original.npu).name for original in originals}
    subject = Programs(originals, {soc: find_firmware(soc) for soc in socs}, seed, folder)
    loop.damage(subject, count=count, first=first, only=only, jobs=jobs, json_file=json_file)


def _files(paths: Sequence[Path]) -> list[Path]:
    """Return the programs among the paths, and those in the folders among them."""
    files = sorted(file for path in paths for file in (path.glob("*.pte") if path.is_dir() else [path]))
    if not files:
        hint = "python -m ethos_hil.suites.lab fuzzers --only-seeds makes some"
        raise UsageError(f"{paths[0]} has no programs", hint=hint)
    return files
