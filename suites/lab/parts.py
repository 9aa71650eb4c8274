"""The parts of the laboratory: what `python -m ethos_hil.suites.lab PART` runs, and what `make lab` runs of them."""

from __future__ import annotations

import importlib
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand
from typer.main import get_command

from ethos_hil.base.console import console, right, table_of
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.suites.lab.shared import CORES, ROOT, Jobs


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


COMMAND = "python -m ethos_hil.suites.lab"


@dataclass(frozen=True)
class Part:
    """A command of the laboratory.

    Attributes:
        help: what it does, in a line.
        place: its function, MODULE:NAME below ethos_hil.suites.lab, with parameters annotated for typer. It raises
            typer.Exit for another exit status than 0. It is imported when the part is asked for.
    """

    help: str
    place: str

    def function(self) -> Callable[..., None]:
        """Import the function."""
        module, name = self.place.split(":")
        function: Callable[..., None] = getattr(importlib.import_module(f"ethos_hil.suites.lab.{module}"), name)
        return function

    def command(self) -> TyperCommand:
        """Return the command that parses arguments and calls the function."""
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command()(self.function())
        command = get_command(app)
        assert isinstance(command, TyperCommand)
        return command


PARTS: Mapping[str, Part] = {
    "all": Part("everything below, or some of it, for nightly use: `make lab`", "parts:main"),
    "conformance": Part("all operators on all Ethos-U against TOSA", "prove.conformance.command:main"),
    "tflite": Part("small networks against TensorFlow Lite Micro", "prove.tflite.command:main"),
    "cmsis-nn": Part("operators of the Cortex-M backend against CMSIS-NN", "prove.cmsis_nn.command:main"),
    "random": Part("random networks on an NPU of each family", "prove.random_models.command:main"),
    "upstream": Part("ExecuTorch's own Arm tests on the virtual boards", "prove.upstream.command:main"),
    "zoo": Part("architectures of torchvision, timm, transformers and our own on five NPUs", "prove.zoo.command:main"),
    "matrix": Part("a sample of the suites with each upstream and each Python", "prove.matrix:main"),
    "published": Part("cycles that FVPs counted and others published", "prove.published.command:main"),
    "fvp-check": Part(
        "programs, tests and cycles on an FVP of Arm's, in a file to send", "prove.fvp_check.command:main"
    ),
    "streams": Part("damaged command streams, weights and memory", "damage.streams:main"),
    "servers": Part("GDB servers that play tricks", "damage.servers:main"),
    "fuzzers": Part("the firmware's libFuzzer programs", "damage.libfuzzer:main"),
    "programs": Part("damaged programs in the real image, on the virtual boards", "damage.programs:main"),
    "code": Part("small changes of our own code, and whether tests see them", "measure.mutants.command:main"),
    "bench": Part("a bench board, until its standard input ends", "bench.bench_server:main"),
    "campaign": Part("what may happen to a board and its users", "bench.campaign.command:main"),
    "self-bench": Part("sizes, times and ratios of our own code", "measure.cost.command:main"),
    "baselines": Part("known networks on all NPUs in all memory modes", "measure.baselines:main"),
    "check": Part("lint, types and the fast tests of what changed: `make check`", "changed:main"),
    "system": Part("make targets on another release of Debian or Ubuntu, in a chroot", "other_system:main"),
    "run-locks": Part("write the locks that users install: `make lock`", "run_locks:main"),
    "materials": Part("write the wheel's list of parts: `make wheel`", "bill_of_materials:main"),
}
"""By the name that the command line has."""

_PYTEST = "pytest -n {jobs} --dist worksteal"
_TFLITE = ("make build/tflite-micro/.installed", "tflite -j {jobs}")

LAB: Mapping[str, tuple[str, ...]] = {
    "tests": (f"{_PYTEST} -m 'lab and not proof'",),
    # `make test` leaves these out where nothing that they read has changed (base/testing/environment.py).
    "environment": (f"{_PYTEST} -m 'environment and not proof and not lab'",),
    "conformance": ("conformance -j {jobs}", *_TFLITE),
    "networks": ("random --count 60 --seed {seed} -j {jobs}",),
    "fuzz": (
        "streams --seed {seed} -j {jobs}",
        "servers -n 1000 --seed {seed} -j {jobs}",
        "sh -c 'cd firmware && cmake --preset host --log-level WARNING && cmake --build --preset fuzz -- --quiet'",
        "fuzzers --seconds 60 --seed {seed}",
    ),
    "mutants": ("fuzzers --only-seeds", "programs -n 500 --seed {seed} -j {jobs}"),
    "code": ("code verdict gate nightly link repairs -n 100 --seed {seed} -j {jobs} --at-least 85",),
    "upstream": ("upstream --sample 60 --seed {seed} -j {jobs}",),
    "zoo": ("make build/zoo/.installed", "zoo --npu ethos-u55-128 --npu ethos-u85-256 -j {jobs}"),
    "campaign": ("campaign -n 200 --seed {seed} -j {jobs}",),
    "suites": (f"{_PYTEST} suites",),
    "proofs": (
        "make build/tflite-micro/.installed build/peers/.installed build/labgrid/.installed",
        f"{_PYTEST} -m proof",
    ),
    "baselines": ("make build/zoo/.installed", "baselines --check -j {jobs}"),
    "bench": ("self-bench",),
}
"""What `make lab` runs in turn, by the names that its PARTS have: the commands of each, up to the first one that fails.
The first word is a part's name, or make, pytest or sh."""
