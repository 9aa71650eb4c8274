"""`python -m ethos_hil.suites.lab.bench.routes`: the operator suite on bench boards, over each way to them.

`--upload` measures what an upload has of the line's rate instead, `--models 1000` runs so many models in a row on a
board that is loaded once. Exit status: 0 all is verified, and at least as fast as asked; 1 not; 2 unusable arguments,
3 a program is not installed.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.terminal.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.bench.routes.firmware_load import FirmwareLoad, load_firmware
from ethos_hil.suites.lab.bench.routes.model_row import run_row
from ethos_hil.suites.lab.bench.routes.route import Route, routed_board
from ethos_hil.suites.lab.bench.routes.suite_run import SuiteRun, run_suite
from ethos_hil.suites.lab.bench.routes.upload_rate import measure_upload
from ethos_hil.suites.lab.command import start

NPU = "ethos-u55-128"
LEAST_SHARE = 0.85
"""Of the line's rate, for an upload."""
UPLOAD_BYTES = 1_000_000
_DEFECT = "xfailed"
"""What pytest calls a test that fails as its declaration of a known defect says."""
_GOOD = {"verified", _DEFECT, "deselected", "warnings", "warning"}
_LINES = 40


def main(
    routes: Annotated[list[Route] | None, typer.Argument(help="Ways to the boards; default: all.")] = None,
    boards: Annotated[int, typer.Option(min=1, help="Boards, each with a worker of pytest.")] = 2,
    one_in: Annotated[int, typer.Option(min=1, help="Run one in so many tests.")] = 1,
    upload: Annotated[int, typer.Option(min=0, help="Measure so many uploads of a megabyte instead.")] = 0,
    models: Annotated[int, typer.Option(min=0, help="Run so many models in a row instead.")] = 0,
    networks: Annotated[int, typer.Option(min=1, help="Different ones among these models.")] = 40,
    seed: Annotated[int, typer.Option(help="Of models, inputs and packages.")] = 0,
) -> None:
    """Run the operator suite through each way to a bench board; or measure uploads, or models in a row."""
    chosen = routes or list(Route)
    for route in chosen:
        route.require()
    good = True
    for route in chosen if upload or models else ():
        with tempfile.TemporaryDirectory(prefix="ethos-hil-") as name:
            good &= _uploads(route, Path(name), upload, seed) if upload else True
            good &= _row(route, Path(name), models, networks, seed) if models else True
    if not upload and not models:
        good = _suites(chosen, boards, one_in)
    if not good:
        raise typer.Exit(1)


def _suites(routes: list[Route], boards: int, one_in: int) -> bool:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("way", "firmware: bytes", "load, s", "bytes/s", "loads", "verified", "defects", "other", "suite, s"):
        table.add_column(title, justify="left" if title == "way" else "right")
    good = True
    for route in routes:
        load, run, resets = _suite(route, boards, one_in)
        other = {word: count for word, count in run.counts.items() if word not in _GOOD}
        good &= not run.status and bool(run.counts.get("verified")) and not other and resets == boards
        if run.status or other:
            console().print(Text("\n".join(run.output.splitlines()[-_LINES:])))
        texts = (route.way, f"{load.size:,}", f"{load.seconds:.1f}", f"{load.rate:,.0f}", str(resets))
        counts = (run.counts.get("verified", 0), run.counts.get(_DEFECT, 0), sum(other.values()))
        table.add_row(*texts, *map(str, counts), f"{run.seconds:.0f}")
    console().print(table)
    return good


def _suite(route: Route, boards: int, one_in: int) -> tuple[FirmwareLoad, SuiteRun, int]:
    """Return how the first board was loaded, how the suite ended, and how often boards were reset in all."""
    with contextlib.ExitStack() as stack, Live() as live:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ethos-hil-")))
        live.stage(f"Starting {boards} boards: {route.way}")
        there = [stack.enter_context(routed_board(route, folder, f"bench-{number}")) for number in range(boards)]
        live.stage(f"Loading the firmware: {route.way}")
        loads = [load_firmware(board.file, NPU) for board in there]
        live.stage(f"Running the suite: {route.way}")
        run = run_suite([board.file for board in there], NPU, folder, one_in)
        return loads[0], run, sum(board.bench.status()["resets"] for board in there)


def _uploads(route: Route, folder: Path, count: int, seed: int) -> bool:
    with routed_board(route, folder) as there:
        load_firmware(there.file, NPU)
        board = find_board(str(there.file))
        rates = [measure_upload(board, UPLOAD_BYTES, seed + number) for number in range(count)]
    for rate in rates:
        console().print(
            f"{route.way}: {rate.size:,} bytes at {rate.baud:,} baud in {rate.seconds:.2f} s, {rate.share:.1%} of "
            f"the line's rate; {rate.again:,} bytes sent again, {rate.lost:,} lost, {rate.damaged:,} frames damaged",
            highlight=False,
        )
    return all(rate.share >= LEAST_SHARE for rate in rates)


def _row(route: Route, folder: Path, count: int, networks: int, seed: int) -> bool:
    with routed_board(route, folder) as there, Live() as live:
        live.stage(f"Running {count} models in a row: {route.way}")
        row = run_row(there.bench, there.file, NPU, count, networks, seed, live.step)
    for text in row.failed:
        console().print(Text(text))
    console().print(
        f"{route.way}: {count:,} runs of {row.models} models in {row.seconds:.0f} s; {row.verified:,} verified, "
        f"{len(row.failed)} failed, firmware loaded {row.resets} times",
        highlight=False,
    )
    return not row.failed and row.resets == 1


if __name__ == "__main__":
    start(main)
