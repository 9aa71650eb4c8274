"""`python -m ethos_hil.suites.lab.farm`: a suite on a labgrid farm of this machine, and what labgrid costs a run.

With `--serve` it is a farm to try things on, until Ctrl-C. Exit status: 0 all is verified or a known defect, on every
place, and nothing is left behind; 1 it is not; 3 labgrid's environment or ser2net is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.ending import standing_of
from ethos_hil.base.errors import ToolError
from ethos_hil.base.process import dies_with
from ethos_hil.base.verdict import Standing, Verdict
from ethos_hil.results.store import StoredRecord, read
from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.farm.desk_farm import BOARD, DeskFarm, desk_farm, labgrid_environment

ROOT = Path(__file__).resolve().parents[3]
_SUFFIX = "U55_BI"
_RUNS = 20
"""Of one program, to measure what labgrid costs."""
_FREE_SECONDS = 20.0
_HOURS = 3600.0


def main(
    tests: Annotated[list[str] | None, typer.Argument(help="Arguments of pytest; default: suites/ops.")] = None,
    places: Annotated[int, typer.Option(min=1, help="How many places the farm has, and pytest workers.")] = 2,
    serve: Annotated[bool, typer.Option("--serve", help="Only run the farm, and say how it is reached.")] = False,
) -> None:
    """Run a suite on a farm on this machine: labgrid, ser2net, and boards of the laboratory."""
    with contextlib.ExitStack() as stack:
        environment = labgrid_environment()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ethos-hil-farm-")))
        boards = [stack.enter_context(BenchBoard(baud=None if serve else 0)) for _ in range(places)]
        farm = stack.enter_context(desk_farm(environment, folder, boards))
        if serve:
            _serve(farm)
            return
        wrong = list(_judge(farm, _session(farm, tests or ["suites/ops"], places)))
        _compare(farm)
        wrong += [f"{place} is with {who}" for place, who in farm.free_within(_FREE_SECONDS).items()]
    for problem in wrong:
        sys.stderr.write(f"{problem}\n")
    if wrong:
        raise typer.Exit(1)


def _serve(farm: DeskFarm) -> None:
    for name, value in farm.variables.items():
        _tell(f"export {name}={shlex.quote(value)}")
    _tell(f"# --target labgrid:board1, --target labgrid:board={BOARD}; Ctrl-C ends the farm")
    signal.pause()


def _session(farm: DeskFarm, tests: list[str], workers: int) -> Path:
    """Run a suite on the farm, and return the folder with its records."""
    runs = farm.folder / "runs"
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist", "worksteal", *tests]
    command += ["--suffix", _SUFFIX, "--target", f"labgrid:board={BOARD}", "--runs", str(runs)]
    command += ["-p", "no:cacheprovider"]
    _tell(shlex.join(["python", *command[1:]]))
    began = time.monotonic()
    done = _run(command, {**os.environ, **farm.variables})
    if done:
        raise ToolError(f"pytest ended with status {done}")
    _tell(f"the session took {time.monotonic() - began:.0f} s")
    return runs


def _judge(farm: DeskFarm, runs: Path) -> Iterator[str]:
    """Say how many tests each place had. Yield what is wrong."""
    records = [item.record for item in read(runs) if isinstance(item, StoredRecord)]
    endings = Counter(map(standing_of, records))
    verified = [record for record in records if record.verdict is Verdict.VERIFIED]
    places = Counter(
        note.removeprefix("it ran at ") for record in verified for note in record.notes if note.startswith("it ran at ")
    )
    _tell(", ".join(f"{count} at {place}" for place, count in sorted(places.items())))
    if not verified or not set(endings) <= {Standing.VERIFIED, Standing.DEFECT}:
        yield f"not all is verified, or a known defect: {dict(endings)}"
    if sum(places.values()) != len(verified):
        yield f"{len(verified)} tests are verified, and {sum(places.values())} of them ran on a place"
    if len(places) != len(farm.boards):
        yield f"only {', '.join(sorted(places)) or 'no place'} had work"


def _compare(farm: DeskFarm) -> None:
    """Say what a run of a small program takes on a board, and on the same one through labgrid."""
    for name, target in (("by itself", f"board:{BOARD}"), ("through labgrid", "labgrid:board1")):
        command = [sys.executable, "-m", "ethos_hil.suites.lab.farm.farm_user", target, "--runs", str(_RUNS)]
        output = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            check=True,
            timeout=_HOURS,
            env={**os.environ, **farm.variables},
            preexec_fn=dies_with(os.getpid()),
        ).stdout
        first, *rest = (json.loads(line)["seconds"] for line in output.splitlines())
        _tell(f"a run on a board {name}: {statistics.median(rest):.2f} s; the first one {first:.2f} s")


def _run(command: list[str], environment: dict[str, str]) -> int:
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=False, timeout=_HOURS, preexec_fn=dies_with(os.getpid())
    ).returncode


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    start(main)
