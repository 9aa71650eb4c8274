"""`make fvp-check`: for who has an FVP. Runs programs and tests on it, and writes one file to send.

Exit status: 0 everything was verified, 1 something was not, 2 unusable arguments, 3 there is no FVP.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ethos_hil.base import environment
from ethos_hil.base.console import add_row, console, right, table_of
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import write_whole
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.image.pack import RunPlan
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE, MODELS, FvpModel, fvp_model, installed_fvp
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.prove.fvp_check.examination import (
    FEW,
    PROGRAMS,
    Examination,
    contract,
    examine,
    operators,
)
from ethos_hil.suites.lab.prove.fvp_check.parcel import Privacy, parcel
from ethos_hil.suites.lab.shared import ROOT

PLACE = Path("build/fvp-check.zip")
_OF_SUITES = {npu.family: npu.name for npu in EthosU.usual()}
"""The configurations of the suites."""


def main(
    target: Annotated[
        list[str] | None, typer.Option(metavar="TARGET", help="Default: every FVP that is found.")
    ] = None,
    npu: Annotated[list[str] | None, typer.Option(metavar="NPU", help="Default: the suites' of each family.")] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Of each run.")] = 300.0,
    few: Annotated[bool, typer.Option("--few", help="Two programs, the tests of one file, no contract.")] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to send.")] = PLACE,
) -> None:
    """Examine every FVP on this computer, and write a .zip with all that was found."""
    wanted = list(_wanted(target or (), npu or ()))
    results: list[Examination] = []
    with Live() as live:
        for model, name in wanted:
            examination = examine(model, name, list(FEW if few else PROGRAMS), timeout, live.stage)
            results.append(examination)
            if any(ending.verified for ending in examination.endings):
                live.stage(f"{examination.executable}, {name}: operators of the suites")
                examination.sessions.append(operators(examination.soc, name, few=few))
                if not few:
                    live.stage(f"{examination.executable}, {name}: contract of targets")
                    examination.sessions.append(contract(examination.soc, name))
    files = _files(results)
    fvps = {model.fvp.executable: Path(_path(model)) for model, _ in wanted}
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, parcel(files, Privacy.here(ROOT, fvps)))
    kinds = "versions, lists of parameters, command lines, UART bytes, consoles, records, cycles, results of tests"
    sent = f"{out}: {len(files)} files ({kinds}), without paths and names of this computer: please send it"
    stdout = console()
    stdout.print(_table(results))
    for line in (*chain.from_iterable(map(_lines, results)), sent):
        stdout.print(line, soft_wrap=True)
    if not all(examination.well for examination in results):
        raise typer.Exit(1)


def _wanted(targets: Sequence[str], npus: Sequence[str]) -> list[tuple[FvpModel, str]]:
    """Return the FVPs that are here and asked for, each with its NPUs."""
    known = {model.soc.name for model in MODELS.values()}
    unknown = [name for name in targets if name not in known]
    if unknown:
        raise UsageError(f"no FVP is called {unknown[0]}", hint=f"there are {', '.join(sorted(known))}")
    chosen = [model for model in MODELS.values() if not targets or model.soc.name in targets]
    here = [model for model in chosen if installed_fvp(model.fvp.executable)]
    if not here:
        raise ToolError(
            f"none of {', '.join(model.fvp.executable for model in chosen)} is on this computer",
            hint=f"set {FVP_PATH_VARIABLE} to the folders that FVPs are in; without one, `ethos-hil fvp-launchers DIR`",
        )
    pairs = [(model, name) for model in here for name in npus or (_OF_SUITES[model.npu.family],)]
    able = [(model, name) for model, name in pairs if fvp_model(model.soc.name, name) is model]
    if not able:
        raise UsageError(f"no FVP on this computer has {' or '.join(npus)}")
    return able


def _path(model: FvpModel) -> str:
    path = installed_fvp(model.fvp.executable)
    assert path is not None
    return path


def _files(results: Sequence[Examination]) -> dict[str, bytes]:
    """Return the files to send, by name."""
    files = {"report.json": (json.dumps(_report(results), indent=1) + "\n").encode()}
    for examination in results:
        folder = f"{examination.soc}-{examination.npu}"
        files |= {f"{folder}/{name}": data for name, data in examination.files.items()}
        for session in examination.sessions:
            place = f"{folder}/{session.name.replace(' ', '-')}"
            files[f"{place}.txt"] = session.log
            if session.records:
                files[f"{place}.jsonl"] = session.records
    return files


def _report(results: Sequence[Examination]) -> dict[str, Any]:
    machine = environment.machine()
    return {
        "schema_version": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": environment.versions(),
        "commit": environment.commit(ROOT),
        "machine": {name: machine[name] for name in ("system", "machine", "processor", "cores")},
        "events": RunPlan(1, 1).events(0),
        "fvps": [
            {
                "soc": examination.soc,
                "npu": examination.npu,
                "executable": examination.executable,
                "version": examination.version,
                "trouble": examination.trouble,
                "semihosting": examination.runner,
                "programs": [vars(ending) for ending in examination.endings],
                "tests": {session.name: session.counts for session in examination.sessions},
            }
            for examination in results
        ],
    }


def _table(examinations: Sequence[Examination]) -> Table:
    """Return the cycles beside each other."""
    table = table_of("program", "NPU", "FVP", *right("modelled", "FVP's PMU", "modelled / FVP"), "")
    for examination in examinations:
        for ending in examination.endings:
            ratio = f"{ending.modelled / ending.counted:.3f}" if ending.modelled and ending.counted else ""
            cycles = [f"{value:,}" if value is not None else "" for value in (ending.modelled, ending.counted)]
            add_row(table, ending.program, examination.npu, examination.executable, *cycles, ratio, ending.verdict)
    return table


def _lines(examination: Examination) -> list[str]:
    """Return what there is to say of an FVP besides its cycles."""
    name = f"{examination.executable}, {examination.npu}"
    if examination.trouble:
        return [f"{examination.executable}: {examination.trouble}"]
    notes = dict.fromkeys(note for ending in examination.endings for note in ending.notes)
    lines = [f"{name}: {examination.version.splitlines()[0]}", f"  by semihosting: {examination.runner}"]
    return [*lines, *(f"  {session}" for session in examination.sessions), *(f"  note: {note}" for note in notes)]
