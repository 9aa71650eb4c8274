"""`ethos-hil compare`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.harness.cli.model_options import DEBUG
from ethos_hil.lowering.errors import UsageError

_STDOUT = Path("-")
SCHEMA_VERSION = 1
_RECORD = "A record, as `profile --json` writes it; or a run folder."


def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help=_RECORD)],
    after: Annotated[Path, typer.Argument(metavar="B", help="As A; what is new in it counts as new.")],
    everything: Annotated[bool, typer.Option("--all", help="Show rows that are equal, too.")] = False,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="The most rows to show.")] = 25,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write all rows there; - for stdout, instead of the table."),
    ] = None,
    debug: DEBUG = False,
) -> None:
    """Compare two profiles row by row: what became slower, faster, new, split or fused, and where that is in the model.

    Rows are aligned by delegate, operator, module and line, not by number. Their differences add up to the total's.

    Exit status: 0 they were compared, 2 they cannot be: another NPU, memory mode, provenance or target.

    Example: ethos-hil compare monday.json tuesday.json
    """
    from ethos_hil.harness.cli.commands import write_json
    from ethos_hil.harness.cli.destinations import check_distinct, check_files
    from ethos_hil.harness.cli.export import kept_record
    from ethos_hil.results import comparison

    check_files([json_file])
    check_distinct({"--json": json_file}, {"A": before, "B": after})
    try:
        found = comparison.compare(kept_record(before), kept_record(after))
    except comparison.Incomparable as error:
        raise UsageError(f"{before} and {after} cannot be compared: {error.message}", hint=error.hint) from None
    if json_file is not None:
        write_json(json_file, {"schema_version": SCHEMA_VERSION, "equal": found.equal, **asdict(found)})
    if json_file != _STDOUT:
        from ethos_hil.harness.render import console
        from ethos_hil.harness.render_comparison import comparison as rendered

        console().print(rendered(found, everything=everything, top=top))
