"""`--contribute FILE`: the counts of a run, as a file for others (docs/ledger.md)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.file_error import readable
from ethos_hil.base.plain_text import one_line

if TYPE_CHECKING:
    from ethos_hil.base.record import Record
    from ethos_hil.results.ledger.ledger_row import LedgerRow

CONTRIBUTE = Annotated[
    Path | None,
    typer.Option(
        "--contribute",
        metavar="FILE",
        help="Write what the compiler, the timing model, an FVP and a board say there, or add it: for others, in git.",
    ),
]
WHO = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --contribute: who counted, as they want to be called.")
]


def check_contribution(path: Path | None, who: str | None = None) -> None:
    """Raise UsageError where rows cannot be added to a file: it is no ledger, or edited, or cannot be written."""
    from ethos_hil.base.errors import UsageError
    from ethos_hil.harness.cli.destinations import check_files
    from ethos_hil.results.ledger.sources import with_rows

    if path is None:
        if who is not None:
            raise UsageError("--who is about a contribution, and there is none", hint="give --contribute FILE")
        return
    if path == Path("-"):
        raise UsageError("--contribute - is no file, and rows are added to one", hint="name a file")
    check_files([path])
    with readable(path):
        with_rows(path, (), who=who or "")


def contribute_records(path: Path, records: Iterable[Record], *, who: str | None = None) -> None:
    """Add the rows of records to a file of a ledger, and tell on stderr what became of it.

    Raises:
        UsageError: the file is no ledger, or is edited, or cannot be written.
    """
    from ethos_hil.results.ledger.record_rows import rows_of

    contribute(path, (row for record in records for row in rows_of(record)), who=who)


def contribute(path: Path, rows: Iterable[LedgerRow], *, who: str | None = None) -> None:
    """Add rows to a file of a ledger, and tell on stderr what became of it. Errors as of `contribute_records`."""
    from ethos_hil.harness.cli.destinations import write_out
    from ethos_hil.results.ledger.sources import with_rows

    with readable(path):
        text, found = with_rows(path, rows, who=who or "")
    if not found.rows:
        sys.stderr.write(one_line(f"{path} is not written: there is no verified answer whose cycles two say") + "\n")
        return
    write_out(path, text)
    counted = sum(row.reference is not None for row in found.rows)
    tell = [f"{path} has {len(found.rows):,} rows, of which an FVP or a board has counted {counted:,}"]
    if not counted:
        tell[0] += ": it holds estimates only"
    tell += [f"contradiction: {each}" for each in found.contradictions]
    for line in tell:
        sys.stderr.write(one_line(line) + "\n")
