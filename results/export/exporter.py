"""What an exporter is, and the exporters of ethos-hil and of other distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ethos_hil.results.plugins import PluginGroup
from ethos_hil.results.record import Record


@dataclass(frozen=True)
class Exporter:
    """A format that a record can be written in. A distribution registers it in the entry point group
    `ethos_hil.exporters`.

    Attributes:
        name: what `ethos-hil export --to` takes.
        suffix: what names of such files end in, e.g. ".csv".
        description: one line about it.
        write: returns the content of a file with the record. It reads nothing else.
    """

    name: str
    suffix: str
    description: str
    write: Callable[[Record], bytes | str]


EXPORTERS = PluginGroup("ethos_hil.exporters", Exporter, "exporter")
