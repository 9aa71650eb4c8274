"""`python -m ethos_hil.suites.lab upstream`: upstream's Arm backend tests, unchanged, on the virtual boards.

Exit status: 0 nothing failed or differed from the reference that is not diagnosed in known.toml, 1 something did,
2 unusable arguments, 3 tool missing.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.suites.lab.options import CORES, Jobs, JsonFile
from ethos_hil.suites.lab.prove.upstream import session, table
from ethos_hil.suites.lab.prove.upstream.records import TestResult, diagnosis_of, load, read, spread
from ethos_hil.suites.lab.prove.upstream.setting import PACKAGES, REPOSITORY, Setting
from ethos_hil.suites.lab.shared import write_json


def main(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILES]", help="Test files, as ops/test_add.py; default: all.")
    ] = None,
    sample: Annotated[int, typer.Option(metavar="N", min=0, help="Run N tests spread over files; 0: all.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the sample and of the order.")] = 0,
    jobs: Jobs = CORES,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results go.")] = REPOSITORY / "build/upstream",
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep DIR's results of this same build, and run what has none.")
    ] = False,
    expression: Annotated[str, typer.Option("-k", metavar="EXPR", help="As pytest's -k.")] = "",
    items: Annotated[Path | None, typer.Option(metavar="FILE", help="Run exactly the tests listed in FILE.")] = None,
    fvps: Annotated[Path | None, typer.Option(metavar="DIR", help="FVP executables to use, not our launchers.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Run upstream's Arm backend tests, unchanged, on the virtual boards, and print what came of them per file."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # on the way out, pytest is ended too
    setting = Setting.prepare(out, fvps)
    results = out / "results.jsonl"
    if not resume:
        results.unlink(missing_ok=True)
    chosen = _choose(setting, files or [], expression, items)
    chosen = spread(chosen, sample or len(chosen), seed)
    recorded = read(results)
    todo = [item for item in chosen if item not in recorded or recorded[item].build != setting.build]
    session.run(setting, todo, results, jobs=jobs)
    recorded = read(results)
    _report(out, [recorded[item] for item in chosen if item in recorded], json_file)


def _choose(setting: Setting, files: list[str], expression: str, items: Path | None) -> list[str]:
    """Return the tests that the options select."""
    if items is not None:
        return [line for line in items.read_text().splitlines() if line]
    chosen = session.catalogue(setting, files, expression)
    if not chosen:
        raise UsageError("no test fits", hint="name files as in ops/test_add.py, and look at -k")
    return chosen


def _report(out: Path, results: list[TestResult], json_file: Path | None) -> None:
    """Print the table, and write its counts to `json_file` if that is given.

    Raises typer.Exit with status 1 when a failure is not diagnosed.
    """
    known = load()
    builds = Counter(result.build for result in results)
    sys.stdout.write(f"{table.text(results, known)}\n")
    if json_file is not None:
        path = out / "catalogue.json"
        unusable = json.loads(path.read_text())["unusable"] if path.exists() else {}
        facts: dict[str, object] = {
            **{name: version(name) for name in PACKAGES},
            "tests": len(results),
            "builds": ", ".join(f"{build} ({count} tests)" for build, count in builds.most_common()),
            "device runs": sum(len(result.calls) for result in results),
            "unusable": unusable,
        }
        write_json(json_file, table.to_json(results, known, facts))
    if any(result.wrong and diagnosis_of(result, known) is None for result in results):
        raise typer.Exit(1)
