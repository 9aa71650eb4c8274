"""Profiles by prefixes on many networks: `python -m ethos_hil.suites.lab.profiles --count 40`.

Exit status: 0 every network's rows are the model's, or moved between neighbours where transfers overlap; 1 a row, a sum
or an output is wrong; 2 unusable arguments.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.terminal.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.profiles.jobs import LIMIT_SECONDS, ProfileJob
from ethos_hil.suites.lab.profiles.trial import ProfileTrial

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
MODELS = tuple(
    f"suites/models/{name}"
    for name in (
        "digits.py:digits", "mobilenetv2.py:mobilenet_v2", "transformer.py:transformer_encoder",
        "mlperf_tiny.py:ds_cnn",
    )
)  # fmt: skip


def main(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help=f"Models. Default: {', '.join(MODELS)}.")
    ] = None,
    count: Annotated[int, typer.Option(min=0, help="Random networks beside them.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="The first one's seed; the others follow.")] = 0,
    npu: Annotated[
        list[str] | None, typer.Option(help=f"NPU; may be repeated. Default: one of each family, {', '.join(NPUS)}.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = os.cpu_count() or 1,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every trial.")] = None,
) -> None:
    """Profile networks on virtual boards by prefixes, and compare each row with the model of time, each output with the
    reference, and all sums.
    """
    npus = [EthosU.parse(name).name for name in npu or NPUS]
    networks: list[str | int] = [*(models or MODELS), *range(seed, seed + count)]
    trials: list[ProfileTrial] = []
    with Live() as live:
        live.stage(f"Profiling {len(networks)} networks on {len(npus)} NPUs")
        for done in Crew(jobs, LIMIT_SECONDS).run([ProfileJob(network, npus) for network in networks]):
            trials.append(done)
            live.step(len(trials), len(networks) * len(npus))
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(trial) for trial in trials], indent=1) + "\n")
    console().print(summary(trials))
    for title in ("refused", "problem"):
        for done in trials:
            if getattr(done, title):
                console().print(Text(f"{title}: {done.network} on {done.npu}: {getattr(done, title)}"))
    if any(done.problem for done in trials):
        raise typer.Exit(1)


def summary(trials: Sequence[ProfileTrial]) -> Table:
    """Return a table of what was found on each NPU."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("NPU")
    for name in ("networks", "refused", "wrong", "rows", "equal", "merged", "moved", "cycles moved"):
        table.add_column(name, justify="right")
    for name in dict.fromkeys(done.npu for done in trials):
        mine = [done for done in trials if done.npu == name]
        rows = sum(done.rows for done in mine)
        pieces = [piece for done in mine for piece in done.moved]
        merged = sum(len(piece.rows) for piece in pieces if piece.merged)
        moved = sum(len(piece.rows) for piece in pieces if not piece.merged)
        cycles = sum(
            abs(share - prefix)
            for piece in pieces
            if not piece.merged
            for share, prefix in zip(piece.shares, piece.prefixes, strict=True)
        )  # each cycle that moved is counted where it was and where it is
        total = sum(done.cycles for done in mine)
        counts = (len(mine), sum(bool(done.refused) for done in mine), sum(bool(done.problem) for done in mine),
                  rows, rows - merged - moved, merged, moved)  # fmt: skip
        table.add_row(name, *(f"{count:,}" for count in counts), f"{cycles / 2 / total:.3%}" if total else "")
    return table


if __name__ == "__main__":
    start(main)
