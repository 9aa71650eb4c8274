"""The folder that `ethos-hil profile --out` writes: a profile in every format, and the ETRecord for the Inspector."""

from __future__ import annotations

import sys
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.base.file_error import writable
from ethos_hil.base.files import write_whole
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.record import Record
from ethos_hil.results.export.exporter import EXPORTERS, NotExportable
from ethos_hil.results.export.runs.run_exporter import export_record

STEM = "profile"
ETRECORD = "model.etrecord"


def check(folder: Path) -> None:
    """Raise UsageError where a folder cannot be written to."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is not a folder", hint="name a folder; it is made if it is not there")


def write(record: Record, etrecord: bytes, folder: Path) -> None:
    """Write a record in every format that it can be written in. Each file is whole, or it is not there.

    A format that shows what the record lacks is left out, and stderr says so; so is the ETRecord if it is empty.

    Raises:
        UsageError: a file cannot be written.
        ToolError: the exporter of another distribution does not work.
    """
    with writable(folder, hint="name another folder for --out"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in EXPORTERS.names():
            try:
                exporter, content = export_record(record, name)
            except NotExportable as error:
                sys.stderr.write(f"ethos-hil: no {name}: {one_line(error.message)}\n")
                continue
            write_whole(folder / f"{STEM}{exporter.suffix}", content)
        if etrecord:
            write_whole(folder / ETRECORD, etrecord)
        else:
            sys.stderr.write(f"ethos-hil: no {ETRECORD}: it is made when a model is lowered, and this one was not\n")
