"""`python -m ethos_hil.suites.lab.mutants FILE...`: boots damaged programs on the virtual board.

Files are called NAME.NPU.pte, for example `add.ethos-u55-128.pte`; the last part says which board they run on. Exit
status: 0 every boot ended in results or a named refusal, 1 findings, 2 unusable arguments.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.socs.registry import virtual_soc
from ethos_hil.harness.terminal.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.mutants import report
from ethos_hil.suites.lab.mutants.jobs import MutantSession
from ethos_hil.suites.lab.mutants.mutate import Original
from ethos_hil.suites.lab.mutants.trial import MutantEnding


def main(
    files: Annotated[list[Path], typer.Argument(help="Programs to damage, NAME.NPU.pte, or folders of them.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Mutants, shared out among programs.")] = 500,
    seed: Annotated[int, typer.Option(help="Of all randomness: the same seed makes the same mutants.")] = 1,
    first: Annotated[int, typer.Option(min=0, help="Number of the first mutant.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = os.cpu_count() or 1,
    folder: Annotated[Path, typer.Option(help="Where mutants with findings go.")] = Path("build/fuzz/mutants"),
) -> None:
    """Boot damaged programs on the virtual board; find whatever does not end in results or a named refusal."""
    originals = [Original.load(file) for file in _programs(files)]
    started = time.monotonic()
    endings: list[MutantEnding] = []
    socs = {virtual_soc(original.npu).name for original in originals}
    session = MutantSession(tuple(originals), {soc: find_firmware(soc) for soc in socs}, seed, folder)
    with Live() as live:
        live.stage(f"Booting {count:,} damaged programs")
        for ending in session.run(range(first, first + count), jobs):
            endings.append(ending)
            live.step(len(endings), count)
    endings.sort(key=lambda ending: ending.number)
    console().print(report.summary(endings, time.monotonic() - started))
    if any(ending.finding for ending in endings):
        names = " ".join(str(file) for file in files)
        again = f"python -m ethos_hil.suites.lab.mutants {names} --seed {seed} --first NUMBER -n 1"
        console().print(Text(f"Mutants are in {folder}; again: {again}"))
        raise typer.Exit(1)


def _programs(paths: list[Path]) -> list[Path]:
    """Return the programs among the paths, and those in the folders among them."""
    files = sorted(file for path in paths for file in (path.glob("*.pte") if path.is_dir() else [path]))
    if not files:
        raise UsageError(
            f"{paths[0]} has no programs", hint="python -m ethos_hil.suites.lab.fuzz.firmware --only-seeds makes some"
        )
    return files


if __name__ == "__main__":
    start(main)
