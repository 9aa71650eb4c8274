"""The options of `profile` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MODEL = Annotated[
    str | None, typer.Argument(metavar="[MODEL]", help="As for `run`. Without one, give --from.", show_default=False)
]
FROM = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="RECORD", help="Show a profile that was taken before: a record, or the folder of a run."
    ),
]
METHOD = Annotated[
    str | None,
    typer.Option(
        metavar="shares|prefix|trace",
        help="How cycles are found. shares: the target says what each operation takes. prefix: the target runs more "
        "and more of the program, and differences count. trace: an FVP's own trace of its NPU. "
        "Default: shares where the target can, else prefix.",
    ),
]
EVENTS = Annotated[
    list[str] | None,
    typer.Option(
        metavar="EVENT",
        help="A PMU event to count for each operation, with prefix: npu_active, mac_active, output_active, "
        "weight_decoder_active, port0_read_beats, port0_write_beats, port1_read_beats, port1_write_beats, or all. May "
        "be repeated. Default: the first four.",
    ),
]
REPEAT = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Executions with each set of events; the median counts.",
        show_default="1 on the virtual board, which is always alike, else 3",
    ),
]
PROGRAM_METHOD = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The method to run, in a program with several. Default: forward, or the first."),
]
TIMEOUT = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Limit for the run on the target.")]
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
