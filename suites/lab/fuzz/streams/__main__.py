"""`python -m ethos_hil.suites.lab.fuzz.streams`: damaged command streams, on every configuration.

Exit status: 0 nothing found, 1 findings, 2 unusable arguments.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.text import Text

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.terminal.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.fuzz.streams import report
from ethos_hil.suites.lab.fuzz.streams.case import StreamCase
from ethos_hil.suites.lab.fuzz.streams.jobs import BLOCK, HANG_SECONDS, CaseJob, CaseRange, Examined, limit_memory
from ethos_hil.suites.lab.fuzz.streams.trial import examine


def main(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Cases, shared out among configurations.")] = 11000,
    seed: Annotated[int, typer.Option(help="Of all randomness: the same seed makes the same cases.")] = 1,
    npu: Annotated[
        list[str] | None, typer.Option(metavar="NPU", help="Configuration, e.g. ethos-u85-256; default: all.")
    ] = None,
    program: Annotated[str, typer.Option(metavar="TEXT", help="Only programs with this in their name.")] = "",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = os.cpu_count() or 1,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write counts and findings.")] = None,
    folder: Annotated[Path, typer.Option(help="Where cases with findings go.")] = Path("build/fuzz"),
    replay: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Run cases that were written before, and nothing else.")
    ] = None,
) -> None:
    """Damage command streams, weights and regions; find whatever does not end soon in a result or a named fault."""
    started = monotonic()
    if replay:
        examined = _replayed(replay)
    else:
        npus = [EthosU.parse(name).name for name in npu] if npu else list(EthosU.names())
        work = [CaseJob(block, folder) for block in shares(npus, seed, count, program)]
        examined = []
        with Live() as live:
            live.stage(f"Running {count:,} damaged programs")
            for case in Crew(jobs, HANG_SECONDS).run(work):
                examined.append(case)
                live.step(len(examined), count)
    seconds = monotonic() - started
    console().print(report.summary(examined, seconds))
    if json_file is not None:
        json_file.write_text(json.dumps(report.to_json(examined, seed, seconds), indent=1) + "\n")
    if any(case.verdict.finding for case in examined):
        raise typer.Exit(1)


def shares(npus: list[str], seed: int, count: int, program: str = "") -> list[CaseRange]:
    """Return `count` cases in blocks, spread evenly over the configurations."""
    blocks = []
    for number, npu in enumerate(npus):
        mine = count // len(npus) + (number < count % len(npus))
        blocks += [
            CaseRange(npu, seed, first // BLOCK, min(BLOCK, mine - first), program) for first in range(0, mine, BLOCK)
        ]
    return blocks


def _replayed(files: list[Path]) -> list[Examined]:
    examined = []
    for file in files:
        try:
            case = StreamCase.load(file)
        except (OSError, ValueError, KeyError) as error:
            raise UsageError(f"{file} is not a case: {error}") from error
        console().print(Text(f"{file}: {case}"))
        limit_memory()
        examined.append(Examined(case.npu, examine(case, hazards=True), file))
        console().print(Text(f"  {examined[-1].verdict.outcome}. {examined[-1].verdict.fault}"))
    return examined


if __name__ == "__main__":
    start(main)
