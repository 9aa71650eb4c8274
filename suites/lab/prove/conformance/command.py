"""`make conformance`: programs on the functional NPU, compared with tosa_reference_model.

Exit status: 0 no output differs, 1 some do or a check hung or crashed, 2 unusable arguments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.testing.compiled_graph import modes_of
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.prove.conformance.check import LIMIT_SECONDS, CheckJob, counts, summary, to_json
from ethos_hil.suites.lab.shared import CORES, Jobs, JsonFile, npus_of, run_jobs, show, write_json


def main(
    npu: Annotated[
        list[str] | None, typer.Option(metavar="NPU", help="Configuration, e.g. ethos-u85-256; default: all.")
    ] = None,
    program: Annotated[str, typer.Option(metavar="TEXT", help="Only programs with this in their name.")] = "",
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
    coverage_file: Annotated[
        Path | None,
        typer.Option("--coverage", metavar="FILE", help="Write the operations that were exact (docs/data)."),
    ] = None,
) -> None:
    """Compile TOSA programs with Vela, run them on the functional NPU, and compare with tosa_reference_model."""
    npus = npus_of(npu, EthosU.names())
    places = [(name, kind) for name in npus for kind in modes_of(name)]
    programs = [name for name in PROGRAMS if program in name]
    if not programs:
        raise UsageError(
            f"no program is called *{program}*",
            hint=f"there are {len(PROGRAMS)} programs, such as {next(iter(PROGRAMS))}",
        )
    work = [CheckJob(name, places) for name in programs]
    what = f"Checking {len(programs):,} programs at {len(places)} places"
    verdicts = run_jobs(Crew(jobs, LIMIT_SECONDS), work, what)
    order = {place: index for index, place in enumerate(places)}
    number = {name: index for index, name in enumerate(programs)}
    verdicts.sort(key=lambda verdict: (order[verdict.npu, verdict.mode], number[verdict.program]))
    show(summary(verdicts))
    counted = to_json(verdicts)
    write_json(json_file, counted)
    facts = {name: counted[name] for name in ("programs", "outcomes")}
    operations = counts(verdicts, npus)
    write_json(coverage_file, {"schema_version": 1, **facts, "npus": npus, "operations": operations})
    if any(verdict.outcome.failed for verdict in verdicts):
        raise typer.Exit(1)
