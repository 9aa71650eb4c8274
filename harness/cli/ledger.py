"""`ethos-hil ledger`: how far estimates are from counts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.file_error import readable
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.cli.asking import DEBUG, file_option, word_of
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_json, write_out

if TYPE_CHECKING:
    from ethos_hil.results.ledger.ledger_row import LedgerSource


def ledger(
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE_OR_RUN...",
            help="A run folder, or a folder of them (all of its runs); a record, or lines of records.",
        )
    ],
    by: Annotated[str, typer.Option(metavar="WORD", help="class, npu, rule, case or source: how rows are grouped.")] = (
        "class"
    ),
    top: Annotated[int, typer.Option(min=1, metavar="N", help="The most groups to show.")] = 60,
    json_file: Annotated[Path | None, file_option("--json", "everything there")] = None,
    csv_file: Annotated[Path | None, file_option("--csv", "a line for each row there")] = None,
    debug: DEBUG = False,
) -> None:  # fmt: skip
    """Show how far Vela's estimates and modelled cycles are from what an FVP or a board counts, by class of operation.

    A ratio is an estimate over a count: the board's, where there is one, else the FVP's. Where no one has counted,
    modelled cycles stand over Vela's estimates, which says who is higher, and not who is right.

    Exit status: 0 it was shown; 2 something has no rows, or cannot be written.

    Example: ethos-hil ledger results/runs

    Example: ethos-hil ledger results/runs profile.json --by rule
    """
    from ethos_hil.harness.npu.timing.rules import RULES
    from ethos_hil.results.ledger.ledger_row import join, merge
    from ethos_hil.results.ledger.summary import Grouping, csv_table, document, summarise

    groups = word_of("--by", by, Grouping)
    if json_file == csv_file == STDOUT:
        raise UsageError("--json and --csv both go to stdout", hint="name a file for one of them")
    check_files([json_file, csv_file])
    check_distinct({"--json": json_file, "--csv": csv_file}, {"FILE_OR_RUN": places[0]})
    rows = join(merge(row for source in _read(places) for row in source.rows))
    summary, rules = summarise(rows, groups), RULES
    if json_file is not None:
        write_json(json_file, document(summary, rows, rules))
    if csv_file is not None:
        write_out(csv_file, csv_table(rows))
    if STDOUT not in (json_file, csv_file):
        from ethos_hil.base.console import console
        from ethos_hil.results.text.ledger import ledger as text

        console().print(text(summary, rules, top=top))


def _read(places: list[Path]) -> list[LedgerSource]:
    """Return the rows of all places; what cannot be read of a run is told. Raises UsageError where there is none."""
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.results.ledger.ledger_row import ledger_source
    from ethos_hil.results.run_name import LISTED

    sources = []
    with Live() as live, readable(hint=LISTED):
        for path in dict.fromkeys(places):
            live.stage(f"Reading {one_line(str(path))}")
            sources.append(ledger_source(path))
    for source in sources:
        for skipped in source.skipped:
            sys.stderr.write(one_line(f"skipped {skipped.where}: {skipped.why}") + "\n")
    if not any(source.rows for source in sources):
        raise UsageError(
            f"{', '.join(map(str, places))} has no program whose cycles two say",
            hint="`ethos-hil run`, `profile` and `bench` make records that do",
        )
    return sources
