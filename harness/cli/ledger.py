"""`ethos-hil ledger`: how far estimates are from counts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.file_error import readable
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.cli.common_options import DEBUG, file_option, word_of
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_json, write_out

if TYPE_CHECKING:
    from ethos_hil.results.ledger.ledger_row import LedgerRow
    from ethos_hil.results.ledger.sources import LedgerSource

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
    """Raise UsageError where rows cannot be added to a file: it is not a ledger, or edited, or cannot be written."""
    from ethos_hil.base.errors import UsageError
    from ethos_hil.results.ledger.sources import with_rows

    if path is None:
        if who is not None:
            raise UsageError("--who is about a contribution, and there is none", hint="give --contribute FILE")
        return
    if path == Path("-"):
        raise UsageError("--contribute - is not a file, and rows are added to one", hint="name a file")
    check_files([path])
    with readable(path):
        with_rows(path, (), who=who or "")


def contribute(path: Path, rows: Iterable[LedgerRow], *, who: str | None = None) -> None:
    """Add rows to a file of a ledger, and tell on stderr what became of it.

    Raises:
        UsageError: the file is not a ledger, or is edited, or cannot be written.
    """
    from ethos_hil.results.ledger.sources import with_rows

    with readable(path):
        text, result = with_rows(path, rows, who=who or "")
    if not result.rows:
        sys.stderr.write(one_line(f"{path} is not written: there is no verified answer whose cycles two say") + "\n")
        return
    write_out(path, text)
    counted = sum(row.reference is not None for row in result.rows)
    tell = [f"{path} has {len(result.rows):,} rows, of which an FVP or a board has counted {counted:,}"]
    if not counted:
        tell[0] += ": it holds estimates only"
    tell += [f"contradiction: {contradiction}" for contradiction in result.contradictions]
    for line in tell:
        sys.stderr.write(one_line(line) + "\n")


def ledger(
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE_OR_RUN...",
            help="A file of --contribute; a run folder, or a folder of them (all of its runs); a record; a history, "
            "which has whole programs only."
        )
    ],
    by: Annotated[str, typer.Option(metavar="WORD", help="class, npu, rule, case or source: how rows are grouped.")] = (
        "class"
    ),
    contribute_to: CONTRIBUTE = None,
    who: WHO = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="The most groups to show.")] = 60,
    json_file: Annotated[Path | None, file_option("--json", "everything there")] = None,
    csv_file: Annotated[Path | None, file_option("--csv", "a line for each row there")] = None,
    debug: DEBUG = False,
) -> None:  # fmt: skip
    """Show how far Vela's estimates and modelled cycles are from what an FVP or a board counts, by class of operation.

    A ratio is an estimate over a count: the board's, where there is one, else the FVP's. Where no one has counted,
    modelled cycles stand over Vela's estimates, which says who is higher, and not who is right.

    Exit status: 0 it was shown; 2 something is not a ledger, was edited, or cannot be written.

    Example: ethos-hil ledger results/runs

    Example: ethos-hil ledger ledger/*.jsonl results/runs --by rule

    Example: ethos-hil ledger results/runs --contribute ledger/fvp-11.27-jane.jsonl --who jane
    """
    from ethos_hil.harness.npu.timing.rules import RULES
    from ethos_hil.results.ledger.merge import join, merge
    from ethos_hil.results.ledger.summary import Grouping, csv_table, document, summarise

    groups = word_of("--by", by, Grouping)
    if json_file == csv_file == STDOUT:
        raise UsageError("--json and --csv both go to stdout", hint="name a file for one of them")
    check_contribution(contribute_to, who)
    check_files([json_file, csv_file])
    written = {"--json": json_file, "--csv": csv_file}
    check_distinct({**written, "--contribute": contribute_to}, {})
    check_distinct(written, {"FILE_OR_RUN": places[0]})
    sources = _read(places)
    union = merge(row for source in sources for row in source.rows)
    if contribute_to is not None:
        contribute(contribute_to, union.rows, who=who)
    rows = join(union.rows)
    summary, rules = summarise(rows, groups), RULES
    for contradiction in union.contradictions:
        sys.stderr.write(one_line(f"contradiction: {contradiction}") + "\n")
    if json_file is not None:
        write_json(json_file, document(summary, rows, union, rules))
    if csv_file is not None:
        write_out(csv_file, csv_table(rows))
    if STDOUT not in (json_file, csv_file):
        from ethos_hil.harness.show.ledger import ledger as text
        from ethos_hil.harness.terminal.console import console

        console().print(text(summary, rules, top=top))


def _read(places: list[Path]) -> list[LedgerSource]:
    """Return the rows of all places; what cannot be read of a run is told. Raises UsageError where there is none."""
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.results.ledger.sources import ledger_source
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
