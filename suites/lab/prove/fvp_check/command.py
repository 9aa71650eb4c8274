"""`make fvp-check`: for who has an FVP. Runs programs and tests on it, and writes one file to send.

Exit status: 0 everything was verified, 1 something was not, 2 unusable arguments, 3 there is no FVP.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
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
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE, MODELS, FvpModel, installed_fvp
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.prove.fvp_check.examination import FEW, PROGRAMS, Examination, examine
from ethos_hil.suites.lab.shared import ROOT

PLACE = Path("build/fvp-check.zip")
_OF_SUITES = {npu.family: npu.name for npu in EthosU.usual()}
"""The configurations of the suites."""
_NO_SECRETS = ("root", "user", "runner", "ubuntu")
"""Names of users that tell nothing, and are ordinary words."""


def main(
    target: Annotated[
        list[str] | None, typer.Option(metavar="TARGET", help="Default: every FVP that is found.")
    ] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Of each run.")] = 300.0,
    few: Annotated[bool, typer.Option("--few", help="Two programs, the tests of one file, no contract.")] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to send.")] = PLACE,
) -> None:
    """Examine every FVP on this computer, and write a .zip with all that was found."""
    models = _wanted(target or ())
    with Live() as live:
        programs = list(FEW if few else PROGRAMS)
        results = [examine(it, _OF_SUITES[it.npu.family], programs, timeout, live.stage, few=few) for it in models]
    files = {"report.json": (json.dumps(_report(results), indent=1) + "\n").encode()}
    for result in results:
        files |= {f"{result.soc}-{result.npu}/{name}": data for name, data in result.files.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, _packed(files))
    kinds = "versions, lists of parameters, command lines, UART bytes, consoles, records, cycles, results of tests"
    sent = f"{out}: {len(files)} files ({kinds}), without your name and the path of your home: please send it"
    stdout = console()
    stdout.print(_table(results))
    for line in (*chain.from_iterable(map(_lines, results)), sent):
        stdout.print(line, soft_wrap=True)
    if not all(examination.well for examination in results):
        raise typer.Exit(1)


def _wanted(targets: Sequence[str]) -> list[FvpModel]:
    """Return the FVPs that are here and asked for."""
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
    return here


def _packed(files: dict[str, bytes]) -> bytes:
    """Return a .zip of files. Texts are without the user's name and home."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            text = not name.endswith(".bin")
            archive.writestr(name, without_user(data.decode("utf-8", "replace")) if text else data)
    return whole.getvalue()


def without_user(text: str) -> str:
    """Return a text with words in place of the user's home and name."""
    home = Path.home()
    text = re.sub(rf"{re.escape(str(home))}(?![A-Za-z0-9])", "<home>", text)
    if home.name in _NO_SECRETS:
        return text
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(home.name)}(?![A-Za-z0-9])", "<user>", text)


def _report(results: Sequence[Examination]) -> dict[str, Any]:
    machine = environment.machine()
    return {
        "schema_version": 2,
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
                "programs": [vars(ending) for ending in examination.endings],
                "tests": examination.tests,
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
    if examination.trouble:
        return [f"{examination.executable}: {examination.trouble}"]
    tests = ", ".join(f"{count} {how}" for how, count in examination.tests.items()) or "none was tried"
    notes = dict.fromkeys(note for ending in examination.endings for note in ending.notes)
    head = f"{examination.executable}, {examination.npu}: {examination.version.splitlines()[0]}"
    return [head, f"  tests: {tests}", *(f"  note: {note}" for note in notes)]
