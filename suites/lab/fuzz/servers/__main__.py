"""`python -m ethos_hil.suites.lab.fuzz.servers`: the client of GDB's remote protocol against servers that play tricks.

Exit status: 0 nothing found, 1 findings, 2 unusable arguments.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.text import Text

from ethos_hil.harness.terminal.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.fuzz.servers.case import ServerCase
from ethos_hil.suites.lab.fuzz.servers.trial import HANG_SECONDS, OUTCOMES, ServerEnding, ServerJob, examine

_BLOCK = 100
_SHOWN = 20


def main(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Cases.")] = 3000,
    seed: Annotated[int, typer.Option(help="Of all randomness: the same seed makes the same cases.")] = 1,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = os.cpu_count() or 1,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every ending.")] = None,
    replay: Annotated[
        list[int] | None, typer.Option(metavar="NUMBER", help="Run the cases of these numbers, and nothing else.")
    ] = None,
) -> None:
    """Load a program through hostile servers; find what hangs, crashes or succeeds where it must not."""
    began = monotonic()
    if replay:
        endings = [examine(ServerCase.draw(seed, number)) for number in replay]
        for ending in endings:
            console().print(Text(f"{ending.case}\n  {ending.outcome} after {ending.seconds:.2f} s: {ending.said}"))
    else:
        endings = _run(seed, count, jobs)
    _tell(endings, monotonic() - began)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(ending) for ending in endings], indent=1) + "\n")
    if any(ending.finding for ending in endings):
        raise typer.Exit(1)


def _run(seed: int, count: int, jobs: int) -> list[ServerEnding]:
    work = [ServerJob(seed, first, min(_BLOCK, count - first)) for first in range(0, count, _BLOCK)]
    endings = []
    with Live() as live:
        live.stage("Loading through hostile servers")
        for ending in Crew(jobs, HANG_SECONDS).run(work):
            endings.append(ending)
            live.step(len(endings), count)
    return endings


def _tell(endings: list[ServerEnding], seconds: float) -> None:
    counts = Counter(ending.outcome for ending in endings)
    findings = [ending for ending in endings if ending.finding]
    slowest = max((ending.seconds for ending in endings), default=0.0)
    for ending in findings[:_SHOWN]:
        console().print(Text(f"{ending.finding}\n  {ending.case}"))
    console().print(
        Text(
            f"{len(endings):,} cases in {seconds:.0f} s, the slowest in {slowest:.2f} s: "
            + ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in OUTCOMES if counts[outcome])
            + f"; findings: {len(findings) or 'none'}"
        )
    )


if __name__ == "__main__":
    start(main)
