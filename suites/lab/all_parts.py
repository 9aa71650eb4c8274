"""`make lab`: all campaigns that prove the product, one after the other, with one table of how they ended.

It is for nightly use and takes hours. Exit status: 0 all parts ended well, 1 some did not, 2 unusable arguments.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import console, right, table_of
from ethos_hil.base.errors import UsageError
from ethos_hil.suites.lab.options import CORES, Jobs
from ethos_hil.suites.lab.parts import LAB, PARTS
from ethos_hil.suites.lab.shared import ROOT


@dataclass(frozen=True)
class PartEnding:
    """How a part ended.

    Attributes:
        name: the part's.
        failed: the command that failed, or None.
        status: its exit status.
        seconds: of all its commands together.
    """

    name: str
    failed: str | None
    status: int
    seconds: float


def main(
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", help=f"{', '.join(LAB)}; default: all.")
    ] = None,
    jobs: Jobs = CORES,
    seed: Annotated[
        int | None, typer.Option(min=1, help="Of the parts that draw at random; default: today's date, as 20270131.")
    ] = None,
) -> None:
    """Run the laboratory's own tests, conformance, random networks, fuzzing, mutants of programs,
    mutants of our own code, upstream's tests, the zoo, the boards' campaign, suites, proofs,
    published totals, published baselines, and the benchmark in turn.
    published totals, published baselines, and the benchmark in turn.
    """
    unknown = [name for name in parts or () if name not in LAB]
    if unknown:
        raise UsageError(f"the laboratory has no part {unknown[0]!r}", hint=f"there are {', '.join(LAB)}")
    seed = seed or int(f"{datetime.now(UTC):%Y%m%d}")
    endings: list[PartEnding] = []
    try:
        for name in parts or LAB:
            endings.append(run(name, commands_of(name, jobs, seed)))
    finally:
        console().print("", table(endings), sep="\n")
    if any(ending.failed for ending in endings):
        raise typer.Exit(1)


def commands_of(name: str, jobs: int, seed: int) -> list[str]:
    """Return the commands of a part of `make lab`."""
    return [text.format(jobs=jobs, seed=seed) for text in LAB[name]]


def run(name: str, commands: Sequence[str]) -> PartEnding:
    """Run the commands of a part until one fails. What they print goes where ours goes."""
    started = time.monotonic()
    for command in commands:
        sys.stderr.write(f"\n== {name}: {command}\n")
        status = subprocess.run(words_of(command), cwd=ROOT, check=False).returncode
        if status:
            return PartEnding(name, command, status, time.monotonic() - started)
    return PartEnding(name, None, 0, time.monotonic() - started)


def words_of(command: str) -> list[str]:
    """Return the words of the process that a command of the table starts."""
    first, *others = shlex.split(command)
    if first in PARTS:
        return [sys.executable, "-m", "ethos_hil.suites.lab", first, *others]
    if first == "pytest":
        return [sys.executable, "-m", "pytest", *others]
    return [first, *(["--no-print-directory"] if first == "make" else []), *others]


def table(endings: Sequence[PartEnding]) -> Table:
    """Return a table with a row for each part. Parts that failed are red on a terminal."""
    grid = table_of("part", "ended", *right("took"), "failed command")
    for ending in endings:
        ended = f"failed, status {ending.status}" if ending.failed else "passed"
        minutes, seconds = divmod(round(ending.seconds), 60)
        cells = (ending.name, ended, f"{minutes}:{seconds:02}", ending.failed or "")
        grid.add_row(*(Text(cell, style="bold red" if ending.failed else "") for cell in cells))
    return grid
