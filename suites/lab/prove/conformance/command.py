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
from ethos_hil.suites.lab.options import CORES, Jobs, JsonFile
from ethos_hil.suites.lab.prove.conformance import coverage, report
from ethos_hil.suites.lab.prove.conformance import random_graphs as forms
from ethos_hil.suites.lab.prove.conformance.check import LIMIT_SECONDS, CheckJob, CheckResult, catalogued
from ethos_hil.suites.lab.shared import MANY, npus_of, run_jobs, show, write_json


def main(
    npu: Annotated[
        list[str] | None, typer.Option(metavar="NPU", help="Configuration, e.g. ethos-u85-256; default: all.")
    ] = None,
    program: Annotated[str, typer.Option(metavar="TEXT", help="Only programs with this in their name.")] = "",
    mode: Annotated[
        list[str] | None,
        typer.Option(metavar="MODE", help="Memory mode, e.g. Shared_Sram; default: all that a configuration has."),
    ] = None,
    random: Annotated[
        int, typer.Option(metavar="N", min=0, help="Check N random graphs instead of the catalogue's programs.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the first random graph; the next graph has the next seed.")] = 1,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
    coverage_file: Annotated[
        Path | None,
        typer.Option("--coverage", metavar="FILE", help="Write the operations that were exact (docs/data)."),
    ] = None,
) -> None:
    """Compile TOSA programs with Vela, run them on the functional NPU, and compare with tosa_reference_model.

    The programs are the catalogue's, or with --random graphs that depend on their seed alone. Forms of graphs that Vela
    is known to compile wrongly are not drawn.
    """
    npus = npus_of(npu, EthosU.names())
    places = [(name, kind) for name in npus for kind in modes_of(name) if not mode or kind in mode]
    names = [forms.program(number).name for number in range(seed, seed + random)] if random else list(PROGRAMS)
    programs = [name for name in names if program in name]
    if not programs or not places:
        known = ", ".join(sorted({kind for name in npus for kind in modes_of(name)}))
        raise UsageError(
            f"no program is called *{program}*" if not programs else f"no memory mode {' or '.join(mode or [])}",
            hint=f"there are {len(names)} programs, such as {names[0]}; memory modes: {known}",
        )
    find = forms.named if random else catalogued
    work = [CheckJob(name, places, find) for name in programs]
    what = f"Checking {len(programs):,} {'random graphs' if random else 'programs'} at {len(places)} places"
    verdicts = run_jobs(Crew(jobs, LIMIT_SECONDS), work, what, many=MANY)
    order = {place: index for index, place in enumerate(places)}
    number = {name: index for index, name in enumerate(programs)}
    verdicts.sort(key=lambda verdict: (order[verdict.npu, verdict.mode], number[verdict.program]))
    failed = [verdict for verdict in verdicts if verdict.outcome.failed]
    show(report.summary(verdicts))
    if failed and random:
        show("", "again:", *dict.fromkeys(f"  {_again(verdict)}" for verdict in failed))
    counted = report.to_json(verdicts)
    write_json(json_file, {**({"seed": seed, "count": random} if random else {}), **counted})
    facts = {name: counted[name] for name in ("programs", "outcomes")}
    operations = coverage.counts(verdicts, npus)
    write_json(coverage_file, {"schema_version": 1, **facts, "npus": npus, "operations": operations})
    if failed:
        raise typer.Exit(1)


def _again(verdict: CheckResult) -> str:
    """Return the command that checks a random graph again."""
    seed = forms.seed_of(verdict.program)
    return f"python -m ethos_hil.suites.lab conformance --random 1 --seed {seed} --npu {verdict.npu}"
