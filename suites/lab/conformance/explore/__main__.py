"""`python -m ethos_hil.suites.lab.conformance.explore`: random TOSA graphs, compared with tosa_reference_model.

Exit status: 0 no output differs, 1 some do or a check hung or crashed, 2 unusable arguments.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ethos_hil.harness.progress import Live
from ethos_hil.harness.render import console
from ethos_hil.harness.testing.compiled_graph import modes_of
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.conformance import report
from ethos_hil.suites.lab.conformance.check import CheckResult
from ethos_hil.suites.lab.conformance.explore.forms import named, program, seed_of
from ethos_hil.suites.lab.conformance.pool import run


def main(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Graphs.")] = 300,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the first graph; the next has the next. A graph depends on nothing else.")
    ] = 1,
    npu: Annotated[
        list[str] | None, typer.Option(metavar="NPU", help="Configuration, e.g. ethos-u85-256; default: all.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")] = os.cpu_count() or 1,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every verdict there.")] = None,
) -> None:
    """Compile random TOSA graphs with Vela, run them on the functional NPU, compare with tosa_reference_model.

    Every memory mode of a configuration is tried. Forms that Vela itself is known to compile wrongly are not drawn.
    """
    places = [
        (one, mode) for one in (NpuName.parse(name).name for name in npu or NpuName.VALID) for mode in modes_of(one)
    ]
    names = [program(number).name for number in range(seed, seed + count)]
    total = count * len(places)
    verdicts: list[CheckResult] = []
    with Live() as live:
        live.stage(f"Checking {count:,} random graphs at {len(places)} places")
        for verdict in run(names, places, jobs, find=named):
            verdicts.append(verdict)
            live.step(len(verdicts), total)
    order = {place: index for index, place in enumerate(places)}
    verdicts.sort(key=lambda verdict: (order[verdict.npu, verdict.mode], seed_of(verdict.program)))
    console().print(report.summary(verdicts))
    failures = {(seed_of(verdict.program), verdict.npu): None for verdict in verdicts if verdict.outcome.failed}
    if failures:
        console().print("\nagain:")
    for number, one in failures:
        console().print(
            Text(f"  python -m ethos_hil.suites.lab.conformance.explore --seed {number} --count 1 --npu {one}")
        )
    if json_file is not None:
        json_file.write_text(json.dumps({"seed": seed, "count": count, **report.to_json(verdicts)}, indent=1) + "\n")
    if failures:
        raise typer.Exit(1)


if __name__ == "__main__":
    start(main)
