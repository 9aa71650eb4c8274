"""`ethos-hil export`: a record in the format of another tool."""

from __future__ import annotations

import sys
from pathlib import Path

from ethos_hil.lowering.errors import ToolError, UsageError
from ethos_hil.results.export.exporter import EXPORTERS, Exporter, NotExportable
from ethos_hil.results.files import write_whole
from ethos_hil.results.plugins import PluginError, UnknownPlugin
from ethos_hil.results.record import Record
from ethos_hil.results.store import find_record

_STDOUT = Path("-")


def export(path: Path, to: str, output: Path) -> None:
    """Write the record at `path` to a file, whole or not at all, or to stdout.

    Raises:
        UsageError: there is no such exporter, or no record there, or it lacks what the format shows, or the file cannot
            be written.
        ToolError: the exporter of another distribution does not work.
    """
    try:
        _, content = content_of(kept_record(path), to)
    except NotExportable as error:
        raise UsageError(error.message, hint=error.hint) from None
    if output == _STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        write_whole(output, content)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}", hint="nothing was written there") from error


def content_of(record: Record, to: str) -> tuple[Exporter, bytes]:
    """Return an exporter by its name, and what it makes of a record.

    Raises:
        UsageError: there is no such exporter.
        NotExportable: the record lacks what the format shows.
        ToolError: the exporter of another distribution does not work.
    """
    try:
        exporter = EXPORTERS.get(to)
    except UnknownPlugin as error:
        raise UsageError(error.message, hint=error.hint) from None
    except PluginError as error:
        raise ToolError(error.message, hint=error.hint) from error.__cause__
    try:
        content: object = exporter.write(record)
    except NotExportable:
        raise
    except Exception as error:
        owner = EXPORTERS.owner(to)
        raise ToolError(
            f"the exporter {to!r} of {owner} failed: {type(error).__name__}: {error}",
            hint=f"tell those who make {owner}; --debug shows where",
        ) from error
    if isinstance(content, str):
        content = content.encode()
    if not isinstance(content, bytes):
        owner = EXPORTERS.owner(to)
        raise ToolError(
            f"the exporter {to!r} of {owner} returned a {type(content).__name__} in place of text or bytes",
            hint=f"tell those who make {owner}",
        )
    return exporter, content


def kept_record(path: Path) -> Record:
    """Return the record at a path: a file, or a run folder.

    Raises:
        UsageError: there is none.
    """
    try:
        return find_record(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="`ethos-hil runs` lists the runs") from error
    except ValueError as error:
        raise UsageError(
            f"{path} has no record: {error}", hint="give what `ethos-hil run --json FILE` wrote, or a run folder"
        ) from error
