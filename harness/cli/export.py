"""`ethos-hil export`: a record or a run in the format of another tool."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import Record
from ethos_hil.harness.cli.destinations import write_out
from ethos_hil.results.export.runs.run_exporter import export_record, export_run, is_of_runs
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.places import DEFAULT_HISTORY, LISTED
from ethos_hil.results.run_results import RunResults, find_results
from ethos_hil.results.store import find_record


def export(
    paths: Sequence[Path], to: str, output: Path, *, against: str | None = None, policy: Path | None = None
) -> None:
    """Write the record or the run at `paths` to a file, whole or not at all, or to stdout.

    Args:
        paths: a record, a run, or the shards of one.
        to: the name of the format.
        output: the file; - for stdout.
        against: the run or the baseline that a run is compared with.
        policy: the file with what is allowed in that comparison.

    Raises:
        UsageError: there is no such exporter, or no record there, or it lacks what the format shows, or the file cannot
            be written.
        ToolError: the exporter of another distribution does not work.
    """
    if policy is not None and against is None:
        raise UsageError("--policy is about a comparison, and there is none", hint="give --against RUN_OR_BASELINE")
    if is_of_runs(to):
        results = kept_run(paths)
        content = export_run(results, None if against is None else _compare(results, against, policy), to)
    else:
        if against is not None:
            raise UsageError(f"--against is about a run, and {to} is of one record", hint="leave it out")
        content = _of_record(paths, to)
    write_out(output, content)


def kept_record(path: Path) -> Record:
    """Return the record at a path: a file, or a run folder.

    Raises:
        UsageError: there is none.
    """
    with readable(path, hint=LISTED):
        return find_record(path)


def kept_run(paths: Sequence[Path]) -> RunResults:
    """Return the run at some paths, and say on stderr what of it cannot be read.

    Raises:
        UsageError: there is none.
    """
    with readable(paths[0], hint=LISTED):
        results = find_results(paths)
    for skipped in results.skipped:
        sys.stderr.write(one_line(f"skipped {skipped.where}: {skipped.why}") + "\n")
    return results


def _compare(results: RunResults, against: str, policy: Path | None) -> RunComparison:
    from ethos_hil.results.gate.gate import gate, side_of

    with readable(hint=LISTED):
        return gate(against, side_of(results), policy=policy, history=DEFAULT_HISTORY)


def _of_record(paths: Sequence[Path], to: str) -> bytes:
    if len(paths) > 1:
        raise UsageError(
            f"{to} is of one record, and there are {len(paths)} arguments",
            hint="give one, or a format of whole runs: `ethos-hil export --help` lists them",
        )
    return export_record(kept_record(paths[0]), to)[1]
