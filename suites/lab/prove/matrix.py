"""`python -m ethos_hil.suites.lab matrix`: a sample of the suites with each upstream, for docs/compatibility.md.

A row is what runs ethos-hil and what lowers. A sample of the suites runs once for each, in a process of its own, and
what is known of a row is what its records say. A row that was run before stays in the file until it is run again.

Exit status: 0 each case of each row is verified, or declared; 1 one is not; 2 unusable arguments; 3 tool missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ethos_hil.base.dataclasses import asdict, dataclass, field
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import write_whole
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import Standing
from ethos_hil.harness.subjects.subject import LoweringSubject
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.lowering.upstream.patches.patch import VARIABLE
from ethos_hil.results.gate.account import take_account
from ethos_hil.results.run_results import read_results
from ethos_hil.suites.lab.shared import CORES, ROOT, Jobs, markdown_table

DATA = ROOT / "docs/data/matrix.json"
SCHEMA_VERSION = 1
BARE = "bare"
"""This environment, known no deeper than an ExecuTorch that has no patches."""
HERE = "here"
DEFAULT = (HERE, BARE, "executorch==1.4.1", "executorch==1.5.0", "ethos-u-vela==5.2.0", "tosa-tools==2026.8.0")
_NAMES = {HERE: "this environment", BARE: "this environment, taken for unknown"}
_SHOWN = ("executorch", "ethos-u-vela", "torch", "tosa-tools")


@dataclass(frozen=True)
class UpstreamRow:
    """A row, and how its cases ended.

    Attributes:
        harness: the Python that ran ethos-hil, "3.11.7".
        lowered_by: what lowered, as --with names it, without a machine's folders.
        versions: of what lowered: Python, executorch, Vela, torch, tosa-tools.
        depth: how deep lowering knew it.
        counts: cases by how they stand.
        red: names of the cases that are red.
        one_in: every how manieth case of each file ran.
        date, seconds: when it ran, and for how long.
    """

    harness: str
    lowered_by: str
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    depth: str = ""
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    red: tuple[str, ...] = ()
    one_in: int = 1
    date: str = ""
    seconds: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from other rows."""
        return self.harness, self.lowered_by, *self.versions.values()


def main(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHAT]...",
            help=f"What lowers: {HERE}, {BARE}, or values of --with apart by spaces. Default: {', '.join(DEFAULT)}.",
        ),
    ] = None,
    harness: Annotated[
        list[Path] | None,
        typer.Option(metavar="PYTHON", help="Runs ethos-hil: a Python with all that it needs. Default: this one."),
    ] = None,
    one_in: Annotated[int, typer.Option(min=1, metavar="N", help="Run every Nth case of each file.")] = 24,
    jobs: Jobs = CORES,
    json_file: Annotated[Path, typer.Option("--json", metavar="FILE", help="Where rows are kept.")] = DATA,
) -> None:
    """Run a sample of the suites with each upstream, and keep a row for each."""
    asked = list(subjects or DEFAULT)
    for text in asked:
        LoweringSubject.parse(_with(text))
    rows = {row.key: row for row in read(json_file)}
    failed = False
    with Live() as live:
        for python in harness or [Path(sys.executable)]:
            for number, text in enumerate(asked):
                live.stage(f"Running one case in {one_in} with {text} in {python}")
                live.step(number, len(asked))
                row = _run(python, text, one_in, jobs)
                rows[row.key] = row
                failed |= bool(row.red)
                document = {"schema_version": SCHEMA_VERSION, "rows": [asdict(it) for it in rows.values()]}
                write_whole(json_file, json.dumps(document, indent=1) + "\n")
    sys.stdout.write(markdown(rows.values()))
    raise typer.Exit(int(failed))


def read(path: Path) -> list[UpstreamRow]:
    """Return the rows that were run before; none where there is no file."""
    if not path.exists():
        return []
    return [from_json(UpstreamRow, entry) for entry in json.loads(path.read_text("utf-8"))["rows"]]


def _with(text: str) -> tuple[str, ...]:
    return () if text in (HERE, BARE) else tuple(text.split())


def _run(python: Path, text: str, one_in: int, jobs: int) -> UpstreamRow:
    if not python.is_file():
        raise UsageError(f"--harness {python}: there is no such file", hint="give a venv's bin/python")
    began = time.monotonic()
    with TemporaryDirectory(prefix="ethos-hil-") as folder:
        command = [
            str(python.absolute()), "-m", "pytest", "suites", "-q", "-n", str(jobs), "--dist", "worksteal",
            "--one-in", str(one_in), "--runs", folder, "--run-name", "matrix",
            *(f"--with={uses}" for uses in _with(text)),
        ]  # fmt: skip
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **({VARIABLE: BARE} if text == BARE else {})}
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, errors="replace")
        run = Path(folder) / "matrix"
        tests = take_account(read_results([run], may_be_empty=True)).tests if run.is_dir() else ()
    if not any(test.standing is not Standing.MISSING for test in tests):
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        raise ToolError(f"{python} with {text} ran nothing: {''.join(last)}", hint=" ".join(command))
    made = [test.record for test in tests if test.record.artifact is not None] or [tests[0].record]
    versions, artifact = made[0].versions, made[0].artifact
    lowering = {"python": versions["python"], **{name: versions.get(name, "") for name in _SHOWN}}
    return UpstreamRow(
        harness=_version(python),
        lowered_by=_NAMES.get(text, "another Python" if text.startswith("python=") else text),
        versions=lowering,
        depth="" if artifact is None else artifact.depth,
        counts=dict(Counter(str(test.standing) for test in tests)),
        red=tuple(test.label for test in tests if test.standing not in (Standing.VERIFIED, *_DECLARED)),
        one_in=one_in,
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(time.monotonic() - began),
    )


_DECLARED = (Standing.DEFECT, Standing.SKIPPED, Standing.QUARANTINED, Standing.COMPILED_ONLY)
"""Neither verified nor red."""


def _version(python: Path) -> str:
    command = [str(python), "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def markdown(rows: Iterable[UpstreamRow]) -> str:
    """Return the table of docs/compatibility.md."""
    head = ("ethos-hil in Python", "lowered by", "in Python", *_SHOWN, "depth", "verified", "declared", "red", "run on")
    cells = []
    for row in rows:
        counts = dict(row.counts)
        verified = counts.get(Standing.VERIFIED, 0)
        declared = sum(counts.get(standing, 0) for standing in _DECLARED)
        versions = (row.versions.get(name, "") for name in _SHOWN)
        cells.append((
            row.harness, row.lowered_by, row.versions.get("python", ""), *versions, row.depth, verified,
            declared, len(row.red), row.date,
        ))  # fmt: skip
    return markdown_table(head, cells, right=("verified", "declared", "red"))
