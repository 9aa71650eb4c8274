"""What an exporter of whole runs is, and those of ethos-hil and of other distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ethos_hil.base.plugins import PluginGroup
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


RUN_EXPORTERS = PluginGroup("ethos_hil.run_exporters", RunExporter, "exporter of runs")
