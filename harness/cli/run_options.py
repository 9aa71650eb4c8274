"""Options of `run` about the run on the target and the files that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TRUST_ELF = Annotated[
    bool,
    typer.Option("--trust-elf", help="Let the runner reach all files and run commands, not only its own folder."),
]
FAST = Annotated[bool, typer.Option("--fast", help="Let an FVP leave out timing; no cycles are reported.")]
REPEAT = Annotated[
    int | None,
    typer.Option(min=1, help="Executions of each input set.", show_default="what the model asks for, usually 1"),
]
TIMEOUT = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Limit for the run on the target.")]
STRICT = Annotated[
    bool,
    typer.Option("--strict", help="Fail where the NPU's command stream lacks a wait, even if the answer is right."),
]
STRICT_BOARD = Annotated[
    bool,
    typer.Option("--strict-board", help="Fail where the program does what a real board may not forgive."),
]
TRACE = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write every NPU operation there, as decoded and timed, as JSON lines."),
]
JSON = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the record there; - for stdout, instead of the table."),
]
REPLAY = Annotated[
    bool,
    typer.Option(
        "--replay",
        help="Of a bundle (.zip): judge the answer that is recorded in it. Needs neither a target nor torch.",
    ),
]
