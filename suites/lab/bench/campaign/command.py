"""`python -m ethos_hil.suites.lab campaign`: seeded scenarios of what may happen to a board and its users.

Each scenario makes a run on the bench board while something goes wrong, and then one with nothing wrong. Exit status: 0
nothing found, 1 findings, 2 unusable arguments.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.bench.campaign.scenario import SEEDS_A_CAMPAIGN, Scenario, draw
from ethos_hil.suites.lab.bench.campaign.trial import HANG_SECONDS, CampaignJob, ScenarioEnding
from ethos_hil.suites.lab.bench.campaign.trouble import TROUBLES, VERIFIED
from ethos_hil.suites.lab.crew import Crew

_BLOCK = 10
_COMMAND = "python -m ethos_hil.suites.lab campaign --only"


def main(
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=SEEDS_A_CAMPAIGN, help="Scenarios.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of all scenarios.")] = 1,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = os.cpu_count() or 1,
    only: Annotated[
        list[int] | None, typer.Option(metavar="NUMBER", help="Play the scenarios of these numbers, and nothing else.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every ending.")] = None,
) -> None:
    """Let things go wrong on the bench board; find what ends wrongly, or leaves a board that cannot be used."""
    began = monotonic()
    numbers = only or [seed * SEEDS_A_CAMPAIGN + number for number in range(count)]
    endings: list[ScenarioEnding] = []
    try:
        with Live() as live:
            live.stage("Letting things go wrong")
            for ending in play([draw(number) for number in numbers], jobs):
                endings.append(ending)
                if only or ending.violations:
                    console().print(Text(_told(ending)))
                live.step(len(endings), len(numbers))
    finally:  # also after Ctrl-C
        findings = sum(1 for ending in endings if ending.violations)
        console().print(table(endings))
        console().print(
            Text(f"{len(endings)} scenarios in {monotonic() - began:.0f} s; findings: {findings or 'none'}")
        )
        if json_file is not None:
            json_file.write_text(json.dumps([asdict(ending) for ending in endings], indent=1) + "\n")
    if findings:
        raise typer.Exit(1)


def play(scenarios: Sequence[Scenario], jobs: int) -> Iterator[ScenarioEnding]:
    """Play scenarios, and yield how each ended."""
    with tempfile.TemporaryDirectory(prefix="ethos-hil-campaign-") as name:
        size = max(1, min(_BLOCK, -(-len(scenarios) // jobs)))
        blocks = [scenarios[first : first + size] for first in range(0, len(scenarios), size)]
        work = [CampaignJob(tuple(block), Path(name, str(number))) for number, block in enumerate(blocks)]
        yield from Crew(jobs, HANG_SECONDS).run(work)


def table(endings: Sequence[ScenarioEnding]) -> Table:
    """Return it. A scenario with two troubles is in two rows."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("trouble")
    for title in ("scenarios", "verified"):
        grid.add_column(title, justify="right")
    grid.add_column("other endings")
    for title in ("slowest", "well again", "findings"):
        grid.add_column(title, justify="right")
    for trouble in TROUBLES:
        those = [ending for ending in endings if trouble in ending.troubles]
        if not those:
            continue
        kinds = Counter(kind for ending in those for kind in ending.endings)
        verified = kinds.pop(VERIFIED, 0)
        others = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        slowest, well = (max(getattr(ending, name) for ending in those) for name in ("seconds", "well_seconds"))
        findings = sum(1 for ending in those if ending.violations)
        cells = (str(len(those)), str(verified), others, f"{slowest:.1f} s", f"{well:.1f} s", str(findings or "none"))
        grid.add_row(str(trouble), *cells)
    return grid


def _told(ending: ScenarioEnding) -> str:
    lines = [
        f"{ending.number}: {ending.title}",
        f"  ended with {', '.join(ending.endings)} after {ending.seconds:.1f} s",
    ]
    lines += [f"    {text}" for text in ending.said if text]
    lines += [f"  WRONG: {violation}" for violation in ending.violations]
    return "\n".join([*lines, f"  again: {_COMMAND} {ending.number}"] if ending.violations else lines)
