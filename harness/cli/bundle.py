"""`ethos-hil bundle`: one run as a file that shows it again elsewhere."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.plain_text import escaped, one_line
from ethos_hil.harness.cli.common_options import DEBUG

RUN = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run folder, or a folder of them (its newest run), or a record that `run --json` wrote."
    ),
]
TEST = Annotated[
    str | None,
    typer.Argument(
        metavar="TEST",
        help="A test, by pytest's id, or a model; or a part of its name that no other record of the run has. "
        "Default: the only record, or the only one that failed.",
        show_default=False,
    ),
]
OUTPUT = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The bundle to write.")]
INPUTS = Annotated[
    Path | None,
    typer.Option(
        metavar="X.npz", help="The inputs that ran. Default: the model's example inputs, or what the run had."
    ),
]
EXPECTED = Annotated[
    Path | None, typer.Option(metavar="Y.npz", help="The outputs that the run was compared with, if it had --expected.")
]
ARTIFACTS = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="What `pytest --artifacts DIR` kept: for programs that left the cache."),
]
NO_RUN = Annotated[
    bool,
    typer.Option("--no-run", help="Do not run it once more. The bundle then has no answer of a target, for --replay."),
]
TIMEOUT = Annotated[
    float | None,
    typer.Option(
        min=0.1, metavar="SECONDS", help="Limit for the run on the target.", show_default="what the run had, or 120"
    ),
]
JSON = Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")]


def bundle(
    run: RUN,
    test: TEST = None,
    output: OUTPUT = Path("failure.zip"),
    inputs: INPUTS = None,
    expected: EXPECTED = None,
    artifacts: ARTIFACTS = None,
    no_run: NO_RUN = False,
    timeout: TIMEOUT = None,
    as_json: JSON = False,
    debug: DEBUG = False,
) -> None:
    """Write a run into one file, which shows it again elsewhere: `ethos-hil run FILE`. Its name goes to stdout.

    The run is repeated on its target, so that the file has the target's answer too.

    Example: ethos-hil bundle results/runs/20261125T101500Z-1a2b3c test_conv2d_stride_U55_BI -o failure.zip
    """
    from ethos_hil.harness.cli.destinations import check_distinct, check_files, write_out
    from ethos_hil.harness.terminal.progress import Live

    check_files([output])
    read = {"RUN": run, "--inputs": inputs, "--expected": expected}
    check_distinct({"--output": output}, {name: path for name, path in read.items() if path is None or path.is_file()})
    with Live() as live:
        live.stage(f"Looking into {run}")
        from ethos_hil.harness.bundle.found_program import KeptFiles, choose, name_of
        from ethos_hil.harness.bundle.make import make

        chosen = choose(run, test)
        files = KeptFiles(inputs, expected, artifacts)
        made = make(chosen, files, run=not no_run, timeout=timeout, reporter=live)
        live.stage("Writing the bundle")
        data = made.bundle.packed()
    write_out(output, data)
    for note in made.notes:
        sys.stderr.write(f"note: {one_line(note)}\n")
    if as_json:
        document = {
            "file": str(output),
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "name": name_of(chosen.record),
            "verdict": str(chosen.record.verdict),
            "again": None if made.bundle.again is None else str(made.bundle.again.verdict),
            "notes": list(made.notes),
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    sys.stdout.write(f"{escaped(str(output))}\n")
