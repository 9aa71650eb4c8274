"""`make bench`: what the harness costs, how fast the suites and the NPU's model are, and how good its timing is.

Everything is measured now, on this machine. Ratios compare two things that are timed in turn in this run; they mean
more than seconds, which depend on the machine and on what else it is doing. Exit status: 0 every figure meets its
threshold, 1 some fall short, 2 unusable arguments, 3 a tool is missing or does not work.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from ethos_hil.base.console import console
from ethos_hil.base.errors import UsageError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.measure.cost import (
    evaluation,
    history,
    host,
    npu_speed,
    patches,
    published_totals,
    suites_time,
    timing_model,
)
from ethos_hil.suites.lab.measure.cost.figure import BenchPart, table, to_json

PARTS: Mapping[str, Callable[[Live], BenchPart]] = {
    "host": host.measure,
    "suites": suites_time.measure,
    "npu": npu_speed.measure,
    "timing": timing_model.measure,
    "published": published_totals.measure,
    "patches": patches.measure,
    "evaluate": evaluation.measure,
    "history": history.measure,
}


def main(
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", help=f"{', '.join(PARTS)}; default: all.")
    ] = None,
    items: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help=f"Images of the part evaluate. Default: {evaluation.MANY:,} if that alone is asked for, else "
            f"{evaluation.FEW:,}.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Measure what the harness costs, and compare every figure with its threshold."""
    unknown = [name for name in parts or () if name not in PARTS]
    if unknown:
        raise UsageError(f"the benchmark has no part {unknown[0]!r}", hint=f"there are {', '.join(PARTS)}")
    images = items or (evaluation.MANY if parts == ["evaluate"] else evaluation.FEW)
    measures: dict[str, Callable[[Live], BenchPart]] = {**PARTS, "evaluate": partial(evaluation.measure, items=images)}
    done: dict[str, BenchPart] = {}
    for name in parts or PARTS:
        with Live() as live:
            done[name] = measures[name](live)
        if not as_json:
            console().print(*done[name].details, table(name, done[name].figures), "", sep="\n")
    if as_json:
        sys.stdout.write(json.dumps(to_json(done), indent=1) + "\n")
    raise typer.Exit(report(done, quiet=as_json))


def report(done: Mapping[str, BenchPart], *, quiet: bool = False) -> int:
    """Print which figures fall short, unless `quiet`. Return the exit status."""
    figures = [figure for part in done.values() for figure in part.figures]
    short = [figure for figure in figures if figure.short]
    if not quiet:
        held = sum(figure.threshold is not None for figure in figures)
        console().print(f"{len(short) or 'none'} of {held} figures with a threshold fall short")
        for figure in short:
            console().print(Text(f"  {figure.what}", style="red"))
    return 1 if short else 0
