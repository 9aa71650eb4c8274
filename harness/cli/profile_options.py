"""The options of `profile` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FROM = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="RECORD", help="Show a profile that was taken before: a record, or the folder of a run."
    ),
]
BY = Annotated[
    str,
    typer.Option(
        metavar="module|line|type|op|memory",
        help="What rows are grouped by; memory: the bytes in use while each row runs, and who is in them at the peak.",
    ),
]
SORT = Annotated[
    str | None,
    typer.Option(
        metavar="program|cycles", help="The order of rows.", show_default="modules as in the program, else by cycles"
    ),
]
DEPTH = Annotated[int, typer.Option(min=1, metavar="N", help="Levels of modules to show.")]
TOP = Annotated[int, typer.Option(min=1, metavar="N", help="The most rows to show.")]
JSON = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the record there; - for stdout, instead of the tables."),
]
OUT = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Write the profile there in every format that `ethos-hil exporters` lists, and the ETRecord for "
        "ExecuTorch's Inspector.",
    ),
]
