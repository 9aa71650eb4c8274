"""What an exporter of whole runs is, those of ethos-hil and others, and what one of runs or of records makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.plugins import PluginGroup
from ethos_hil.base.record import Record
from ethos_hil.base.suggestion import did_you_mean
from ethos_hil.results.export.exporter import EXPORTERS, Exporter, NotExportable
from ethos_hil.results.gate.change import RunComparison
from ethos_hil.results.run_results import RunResults


@dataclass(frozen=True)
class RunExporter:
    """A format that a run can be written in. A distribution registers it in the entry point group
    `ethos_hil.run_exporters`.

    Attributes:
        name: what `ethos-hil export --to` takes. No exporter of records has it.
        suffix: what names of such files end in, e.g. ".xml".
        description: one line about it.
        write: returns the content of a file with the run. The second argument is what is different from another run or
            a baseline, None where it is compared with nothing. It reads nothing else. It raises `NotExportable` where
            the run lacks what the format shows.
    """

    name: str
    suffix: str
    description: str
    write: Callable[[RunResults, RunComparison | None], bytes | str]


_GONE = {
    "chrome": "use perfetto, which ui.perfetto.dev opens, or folded, which speedscope opens",
    "pytorch-benchmark": "use github-benchmark, or points-parquet with all numbers",
}
"""Formats that there were, and what to use instead."""
RUN_EXPORTERS = PluginGroup("ethos_hil.run_exporters", RunExporter, "exporter of runs")


def is_of_runs(name: str) -> bool:
    """Return whether a format is of whole runs; else it is of records.

    Raises:
        UsageError: there is no such format; lists all.
        ToolError: there is one of both kinds.
    """
    records, runs = EXPORTERS.names(), RUN_EXPORTERS.names()
    if name in records and name in runs:
        raise ToolError(
            f"the exporter {name!r} is registered twice: of records by {EXPORTERS.owner(name)}, of runs by "
            f"{RUN_EXPORTERS.owner(name)}",
            hint="uninstall one of them",
        )
    if name not in records and name not in runs:
        if name in _GONE:
            raise UsageError(f"there is no exporter {name!r} any more", hint=_GONE[name])
        suggestion = did_you_mean(name, [*records, *runs])
        raise UsageError(
            f"no exporter is called {name!r}",
            hint=f"{suggestion}exporters: {', '.join(records)}; of whole runs: {', '.join(runs)}",
        )
    return name in runs


def export_record(record: Record, name: str) -> tuple[Exporter, bytes]:
    """Return an exporter of records by its name, and what it makes of a record.

    Raises:
        UsageError: there is no such exporter, or the record lacks what the format shows (`NotExportable`).
        ToolError: the exporter of another distribution does not work.
    """
    exporter = EXPORTERS.get(name)
    return exporter, _content(EXPORTERS, name, lambda: exporter.write(record))


def export_run(results: RunResults, comparison: RunComparison | None, name: str) -> bytes:
    """Return a run in the format called `name`.

    Args:
        results: the run.
        comparison: what is different from another run or a baseline; None where it is compared with nothing.
        name: one of `RUN_EXPORTERS`.

    Raises:
        UsageError: there is no such exporter, or the run lacks what the format shows.
        ToolError: the exporter of another distribution does not work.
    """
    exporter = RUN_EXPORTERS.get(name)
    return _content(RUN_EXPORTERS, name, lambda: exporter.write(results, comparison))


def _content(group: PluginGroup[Any], name: str, write: Callable[[], object]) -> bytes:
    """Return what an exporter writes. Its own errors, and what is not content, are the fault of its author."""
    try:
        content = write()
        content = content.encode() if isinstance(content, str) else content
    except NotExportable:
        raise
    except (Exception, SystemExit) as error:  # the status of sys.exit() would be that of the command
        owner = group.owner(name)
        raise ToolError(
            f"the exporter {name!r} of {owner} failed: {type(error).__name__}: {error}",
            hint=f"tell those who make {owner}; --debug shows where",
        ) from error
    if not isinstance(content, bytes):
        owner = group.owner(name)
        raise ToolError(
            f"the exporter {name!r} of {owner} returned a {type(content).__name__} in place of text or bytes",
            hint=f"tell those who make {owner}",
        )
    return content
