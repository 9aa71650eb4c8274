"""The options of `evaluate` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA = Annotated[
    str,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="A function that returns the data set: a torch Dataset, a list or a generator of pairs (inputs, label).",
    ),
]
METRIC = Annotated[
    str | None,
    typer.Option(
        metavar="METRIC",
        help="top1, top5, mae, or a function of (outputs, label) as file.py:function. Default: top1 where labels "
        "are whole numbers, else mae.",
    ),
]
LIMIT = Annotated[int | None, typer.Option(metavar="N", min=1, help="Items at most. Default: all.")]
JOBS = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, metavar="N", help="Virtual boards at a time. Default: one a processor."),
]
TRY_INT16 = Annotated[
    int,
    typer.Option(
        "--try-int16",
        min=0,
        metavar="N",
        help="Also say what --int16 would give for the N modules that lose most. Each is quantised anew.",
    ),
]
JSON = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the result there; - for stdout, instead of the table."),
]
