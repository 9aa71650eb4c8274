"""`make bench`: what the harness costs, how fast the NPU's model is, and how good its timing is.

Everything is measured now, on this machine. Ratios compare two things that are timed in turn in this run; they mean
more than seconds, which depend on the machine and on what else it is doing. Exit status: 0 every figure meets its
threshold, 1 some fall short, 2 unusable arguments, 3 a tool is missing or does not work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer
from rich.text import Text

from ethos_hil.base.console import console
from ethos_hil.base.errors import UsageError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.measure.cost import host, npu_speed, timing
from ethos_hil.suites.lab.measure.cost.figure import Figure, Measure, table

PARTS: Mapping[str, Measure] = {"host": host.measure, "npu": npu_speed.measure, "timing": timing.measure}


def main(
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", help=f"{', '.join(PARTS)}; default: all.")
    ] = None,
) -> None:
    """Measure what the harness costs, and compare every figure with its threshold."""
    unknown = [name for name in parts or () if name not in PARTS]
    if unknown:
        raise UsageError(f"the benchmark has no part {unknown[0]!r}", hint=f"there are {', '.join(PARTS)}")
    done: dict[str, list[Figure]] = {}
    for name in parts or PARTS:
        with Live() as live:
            measured = list(PARTS[name](live))
        done[name] = [item for item in measured if isinstance(item, Figure)]
        details = (item for item in measured if not isinstance(item, Figure))
        console().print(*details, table(name, done[name]), "", sep="\n")
    raise typer.Exit(report(done))


def report(done: Mapping[str, list[Figure]]) -> int:
    """Print which figures fall short. Return the exit status."""
    figures = [figure for part in done.values() for figure in part]
    short = [figure for figure in figures if figure.short]
    held = sum(figure.has_limit for figure in figures)
    console().print(f"{len(short) or 'none'} of {held} figures with a threshold fall short")
    for figure in short:
        console().print(Text(f"  {figure.what}", style="red"))
    return 1 if short else 0
