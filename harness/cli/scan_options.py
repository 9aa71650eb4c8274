"""The options of `scan` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.harness.cli import completion

OVER = Annotated[
    list[str],
    typer.Option(
        "--over",
        metavar="PACKAGE=VERSIONS",
        help="ethos-u-vela=4.4..5.2 for the newest release of each minor version, or ethos-u-vela=4.4.1,5.0.0,5.1.0; "
        "or the same of executorch. May be repeated with another package.",
    ),
]
NPU = Annotated[
    list[str] | None,
    typer.Option(
        help="NPU to compile for; repeatable. Default: ethos-u55-128, or that of the test.",
        autocompletion=completion.npus,
    ),
]
MEMORY_MODE = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODE",
        autocompletion=completion.memory_modes,
        help="Shared_Sram, Sram_Only or Dedicated_Sram; repeatable. Default: ExecuTorch's for the NPU.",
    ),
]
ENVIRONMENTS = Annotated[
    Path | None,
    typer.Option(
        "--environments", metavar="DIR", help="Where the versions are installed and kept. Default: the user's cache."
    ),
]
TOP = Annotated[int, typer.Option(min=1, metavar="N", help="The most operations to show of each change.")]
JSON = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the result there; - for stdout, instead of the tables."),
]
CSV = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", help="Write a row for each version there; - for stdout, instead of the tables."
    ),
]
