"""`ethos-hil export`: a record or a run in the format of another tool."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.plugins import PluginGroup
from ethos_hil.harness.cli.asking import DEBUG, POLICY
from ethos_hil.harness.cli.destinations import write_out
from ethos_hil.results.places import DEFAULT_HISTORY, LISTED

if TYPE_CHECKING:
    from ethos_hil.base.record import Record
    from ethos_hil.results.run_results import RunResults


def _formats(group: str) -> str:
    return ", ".join(PluginGroup(group, object, "format").names())


def export(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_OR_RECORD...",
            help="A record, as `run --json` writes it; or a run folder, or a folder of these. A format of records "
            "takes its last record; one of runs the run, or the newest one. Of a run in shards: all their folders.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help=f"{_formats('ethos_hil.exporters')}; of runs: {_formats('ethos_hil.run_exporters')}."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to; - for stdout.")] = Path("-"),
    against: Annotated[
        str | None,
        typer.Option(
            metavar="RUN_OR_BASELINE", help="Of a run: with what is different from this, as `compare` finds it."
        ),
    ] = None,
    policy: POLICY = None,
    debug: DEBUG = False,
) -> None:
    """Write a record or a run in the format of another tool.

    Example: ethos-hil export results/runs --to csv -o operations.csv

    Example: ethos-hil export results/runs --to junit -o report.xml

    Example: ethos-hil export results/runs --to summary --against baseline.jsonl
    """
    from ethos_hil.results.export.runs.run_exporter import export_record, export_run, is_of_runs
    from ethos_hil.results.gate.gate import gate, side_of

    if policy is not None and against is None:
        raise UsageError("--policy is about a comparison, and there is none", hint="give --against RUN_OR_BASELINE")
    if is_of_runs(to):
        results, comparison = kept_run(paths), None
        if against is not None:
            with readable(hint=LISTED):
                comparison = gate(against, side_of(results), policy=policy, history=DEFAULT_HISTORY)
        content = export_run(results, comparison, to)
    elif against is not None:
        raise UsageError(f"--against is about a run, and {to} is of one record", hint="leave it out")
    elif len(paths) > 1:
        raise UsageError(
            f"{to} is of one record, and there are {len(paths)} arguments",
            hint="give one, or a format of whole runs: `ethos-hil export --help` lists them",
        )
    else:
        content = export_record(kept_record(paths[0]), to)[1]
    write_out(output, content)


def kept_record(path: Path) -> Record:
    """Return the record at a path: a file, or a run folder.

    Raises:
        UsageError: there is none.
    """
    from ethos_hil.results.store import find_record

    with readable(path, hint=LISTED):
        return find_record(path)


def kept_run(paths: Sequence[Path]) -> RunResults:
    """Return the run at some paths, and say on stderr what of it cannot be read.

    Raises:
        UsageError: there is none.
    """
    from ethos_hil.results.run_results import find_results

    with readable(paths[0], hint=LISTED):
        results = find_results(paths)
    for skipped in results.skipped:
        sys.stderr.write(one_line(f"skipped {skipped.where}: {skipped.why}") + "\n")
    return results
