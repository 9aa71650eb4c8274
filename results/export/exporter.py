"""What an exporter is, and the exporters of ethos-hil and of other distributions."""

from __future__ import annotations

from collections.abc import Callable

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.plugins import PluginGroup
from ethos_hil.base.record import Record


class NotExportable(UsageError):
    """A record lacks what a format shows. The hint says how to get a record that has it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)


def profile_of(record: Record) -> InferenceProfile:
    """Return the profile of a record. Raises NotExportable where it has none."""
    if record.profile is None or not record.ops:
        raise NotExportable("the record has no profile", "take one with `ethos-hil profile MODEL --json FILE`")
    return record.profile


@dataclass(frozen=True)
class Exporter:
    """A format that a record can be written in. A distribution registers it in the entry point group
    `ethos_hil.exporters`.

    Attributes:
        name: what `ethos-hil export --to` takes.
        suffix: what names of such files end in, e.g. ".csv".
        description: one line about it.
        write: returns the content of a file with the record. It reads nothing else. It raises `NotExportable` where the
            record lacks what the format shows.
    """

    name: str
    suffix: str
    description: str
    write: Callable[[Record], bytes | str]


EXPORTERS = PluginGroup("ethos_hil.exporters", Exporter, "exporter")
