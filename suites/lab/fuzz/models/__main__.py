"""`python -m ethos_hil.suites.lab.fuzz.models`: odd models, each of which ends well or in a clear refusal.

Exit status: 0 nothing found, 1 crashes, hangs or unclear messages, 2 unusable arguments.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ethos_hil.harness.terminal.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.fuzz.models.odd import odd_models
from ethos_hil.suites.lab.fuzz.models.trial import GOOD, HANG_SECONDS, OddJob

TARGETS = ("ethos-u55-128", "ethos-u85-256", "TOSA-1.0+INT", "TOSA-1.0+FP")
_BLOCK = 20


def main(
    target: Annotated[list[str] | None, typer.Option(help=f"Default: {', '.join(TARGETS)}.")] = None,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only models with this in their name.")] = "",
    seed: Annotated[int, typer.Option(help="Of the models that are drawn.")] = 1,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = os.cpu_count() or 1,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every ending.")] = None,
) -> None:
    """Lower odd models and compute their answers. Find crashes, hangs and messages that name internals."""
    names = [name for name in odd_models(seed) if only in name]
    blocks = [tuple(names[first : first + _BLOCK]) for first in range(0, len(names), _BLOCK)]
    work = [OddJob(spec, seed, block) for spec in target or TARGETS for block in blocks]
    endings = []
    with Live() as live:
        live.stage("Lowering odd models")
        for ending in Crew(jobs, HANG_SECONDS).run(work):
            endings.append(ending)
            live.step(len(endings), sum(job.count for job in work))
    for ending in endings:
        if ending.outcome not in GOOD:
            console().print(Text(f"{ending.outcome:8} {ending.target:14} {ending.name}: {ending.said}"))
    console().print(
        Text(", ".join(f"{count} {outcome}" for outcome, count in Counter(e.outcome for e in endings).items()))
    )
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(ending) for ending in endings], indent=1) + "\n")
    if any(ending.outcome not in GOOD for ending in endings):
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main)
