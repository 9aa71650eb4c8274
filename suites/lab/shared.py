"""What the commands of the laboratory share: jobs whose progress is shown, and what they write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import RenderableType
from rich.text import Text

from ethos_hil.base.console import console
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.crew import Crew, Job

CORES = os.cpu_count() or 1
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every ending.")]


Result = TypeVar("Result")
ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""


def npus_of(names: Sequence[str] | None, default: Iterable[str]) -> list[str]:
    """Return the full names of NPUs. Raises UsageError."""
    return [EthosU.parse(name).name for name in names or default]


def run_jobs(crew: Crew, jobs: Sequence[Job[Result]], what: str) -> list[Result]:
    """Return the results of all jobs, and show progress."""
    total = sum(job.count for job in jobs)
    results: list[Result] = []
    with Live() as live:
        live.stage(what)
        for result in crew.run(jobs):
            results.append(result)
            live.step(len(results), total)
    return results


def write_json(path: Path | None, data: object) -> None:
    """Write data as JSON to the file, if one is given."""
    if path is not None:
        path.write_text(json.dumps(data, indent=1) + "\n", "utf-8")


def show(*parts: str | RenderableType) -> None:
    """Print parts, each on lines of its own. A text is of unknown origin."""
    console().print(*(Text(part) if isinstance(part, str) else part for part in parts), sep="\n")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> str:
    """Return a table in Markdown.

    Args:
        head: what is above the columns.
        rows: the cells; a bar in one is escaped.
        right: those of `head` whose columns are numbers.
    """
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---:' if name in right else '---' for name in head)}|"]
    lines += [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"
