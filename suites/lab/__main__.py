"""`make lab`: all campaigns that prove the product, one after the other, with one table of how they ended.

It is for nightly use and takes hours. Exit status: 0 all parts ended well, 1 some did not, 2 unusable arguments.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.terminal.console import console
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.fuzz.firmware.fuzzer import NAMES as FUZZERS

ROOT = Path(__file__).resolve().parents[2]
TFLITE_MICRO = "build/tflite-micro/.installed"
PEERS = "build/peers/.installed"
PYOCD = "build/pyocd/.installed"
LABGRID = "build/labgrid/.installed"
ZOO = "build/zoo/.installed"
SEEDS = "build/fuzz/seeds/board"
Command = Sequence[str]


@dataclass(frozen=True)
class LabOptions:
    """The options that the parts get.

    Attributes:
        jobs: worker processes.
        seed: of the parts that draw at random.
    """

    jobs: int
    seed: int


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
    failed: Command | None
    status: int
    seconds: float


def _module(name: str, *arguments: str | int) -> Command:
    return (sys.executable, "-m", f"ethos_hil.suites.lab.{name}", *map(str, arguments))


def _pytest(options: LabOptions, *arguments: str) -> Command:
    return (sys.executable, "-m", "pytest", "-n", str(options.jobs), "--dist", "worksteal", *arguments)


def _installed(*environments: str) -> Command:
    return ("make", "--no-print-directory", *environments)


def _tflite(options: LabOptions) -> list[Command]:
    return [_installed(TFLITE_MICRO), _module("tflite", "-j", options.jobs)]


def _conformance(options: LabOptions) -> list[Command]:
    return [_module("conformance", "-j", options.jobs), *_tflite(options)]


def _random(options: LabOptions) -> list[Command]:
    return [_module("conformance", "--random", 300, "--seed", options.seed, "-j", options.jobs)]


def _networks(options: LabOptions) -> list[Command]:
    return [_module("random_models", "--count", 60, "--seed", options.seed, "-j", options.jobs)]


def _profiles(options: LabOptions) -> list[Command]:
    return [_module("profiles", "--count", 40, "--seed", options.seed, "-j", options.jobs)]


def _fuzz(options: LabOptions) -> list[Command]:
    targets = [f"fuzz-{name}" for name in FUZZERS]
    return [
        _module("fuzz.streams", "--seed", options.seed, "-j", options.jobs),
        _module("fuzz.models", "--seed", options.seed, "-j", options.jobs),
        _module("fuzz.servers", "-n", 1000, "--seed", options.seed, "-j", options.jobs),
        ("cmake", "-S", "firmware", "--preset", "host", "--log-level", "WARNING"),
        ("cmake", "--build", "build/firmware/host", "--target", *targets, "--", "--quiet"),
        _module("fuzz.firmware", "--seconds", 60, "--seed", options.seed),
    ]


def _mutants(options: LabOptions) -> list[Command]:
    return [
        _module("fuzz.firmware", "--only-seeds"),
        _module("mutants", SEEDS, "-n", 500, "--seed", options.seed, "-j", options.jobs),
    ]


def _code(options: LabOptions) -> list[Command]:
    rooms = ("verdict", "gate", "nightly", "link", "repairs")
    settings = ("-n", 100, "--seed", options.seed, "-j", options.jobs, "--at-least", 85)
    return [_module("mutants_of_code", *rooms, *settings)]


def _upstream(options: LabOptions) -> list[Command]:
    return [_module("upstream", "--sample", 60, "--seed", options.seed, "-j", options.jobs)]


def _peers(options: LabOptions) -> list[Command]:
    return [_installed(PEERS), _module("peers")]


def _zoo(options: LabOptions) -> list[Command]:
    npus = ("--npu", "ethos-u55-128", "--npu", "ethos-u85-256")
    return [_installed(ZOO), _module("zoo", *npus, "-j", options.jobs)]


def _stress(options: LabOptions) -> list[Command]:
    return [_module("stress", "--rounds", 2), _module("nights", "--seed", options.seed)]


def _campaign(options: LabOptions) -> list[Command]:
    return [_module("bench.campaign", "-n", 200, "--seed", options.seed, "-j", options.jobs)]


def _farm(options: LabOptions) -> list[Command]:
    return [_installed(LABGRID), _module("farm", "--places", min(4, max(2, options.jobs)))]


def _routes(options: LabOptions) -> list[Command]:
    return [
        _installed(PYOCD),
        _module("bench.routes", "--boards", options.jobs),
        _module("bench.routes", "gdb", "--upload", 3, "--seed", options.seed),
        _module("bench.routes", "gdb", "--models", 1000, "--seed", options.seed),
    ]


def _suites(options: LabOptions) -> list[Command]:
    return [_pytest(options, "suites")]


def _proofs(options: LabOptions) -> list[Command]:
    return [_installed(TFLITE_MICRO, PEERS, PYOCD, LABGRID), _pytest(options, "-m", "proof")]


def _own(options: LabOptions) -> list[Command]:
    return [_pytest(options, "-m", "lab and not proof")]


def _baselines(options: LabOptions) -> list[Command]:
    return [_installed(ZOO), _module("baselines", "--check", "-j", options.jobs)]


def _published(options: LabOptions) -> list[Command]:
    return [_module("published", "--compile")]


def _bench(options: LabOptions) -> list[Command]:
    return [_module("self_bench")]


PARTS: Mapping[str, Callable[[LabOptions], list[Command]]] = {
    "tests": _own,
    "conformance": _conformance,
    "random": _random,
    "networks": _networks,
    "profiles": _profiles,
    "fuzz": _fuzz,
    "mutants": _mutants,
    "code": _code,
    "upstream": _upstream,
    "peers": _peers,
    "zoo": _zoo,
    "stress": _stress,
    "campaign": _campaign,
    "farm": _farm,
    "routes": _routes,
    "suites": _suites,
    "proofs": _proofs,
    "published": _published,
    "baselines": _baselines,
    "bench": _bench,
}
"""The commands of each part. A part ends at the first one that fails."""


def main(
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", help=f"{', '.join(PARTS)}; default: all.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = os.cpu_count() or 1,
    seed: Annotated[
        int | None, typer.Option(min=1, help="Of the parts that draw at random; default: today's date, as 20270131.")
    ] = None,
) -> None:
    """Run the laboratory's own tests, conformance, random graphs and networks, profiles, fuzzing, mutants of programs,
    mutants of our own code, upstream's tests, peers, the zoo, stress, the boards' campaign, a farm, suites, proofs,
    published totals, published baselines, and the benchmark in turn.
    """
    unknown = [name for name in parts or () if name not in PARTS]
    if unknown:
        raise UsageError(f"the laboratory has no part {unknown[0]!r}", hint=f"there are {', '.join(PARTS)}")
    options = LabOptions(jobs, seed or int(f"{datetime.now(UTC):%Y%m%d}"))
    endings: list[PartEnding] = []
    try:
        for name in parts or PARTS:
            endings.append(run(name, PARTS[name](options)))
    finally:
        console().print("", table(endings), sep="\n")
    if any(ending.failed for ending in endings):
        raise typer.Exit(1)


def run(name: str, commands: Sequence[Command]) -> PartEnding:
    """Run the commands of a part until one fails. What they print goes where ours goes."""
    started = time.monotonic()
    for command in commands:
        sys.stderr.write(f"\n== {name}: {_shown(command)}\n")
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status:
            return PartEnding(name, command, status, time.monotonic() - started)
    return PartEnding(name, None, 0, time.monotonic() - started)


def table(endings: Sequence[PartEnding]) -> Table:
    """Return a table with a row for each part. Parts that failed are red on a terminal."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("part")
    grid.add_column("ended")
    grid.add_column("took", justify="right")
    grid.add_column("failed command")
    for ending in endings:
        ended = f"failed, status {ending.status}" if ending.failed else "passed"
        minutes, seconds = divmod(round(ending.seconds), 60)
        cells = (ending.name, ended, f"{minutes}:{seconds:02}", _shown(ending.failed) if ending.failed else "")
        grid.add_row(*(Text(cell, style="bold red" if ending.failed else "") for cell in cells))
    return grid


def _shown(command: Command) -> str:
    return shlex.join("python" if word == sys.executable else word for word in command)


if __name__ == "__main__":
    start(main)
