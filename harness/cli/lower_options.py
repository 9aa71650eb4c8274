"""The options of `lower` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.harness.cli import completion

PRODUCT = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="pte|vela|tosa",
        help="The product: a program, the blob that Vela compiles for each delegate, or each delegate in TOSA.",
    ),
]
NPU = Annotated[
    str | None,
    typer.Option(help="For pte and vela: NPU to compile for. Default: ethos-u55-128.", autocompletion=completion.npus),
]
TOSA = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="For tosa: TOSA-1.0+INT (quantised, the default) or TOSA-1.0+FP, with extensions as in "
        "TOSA-1.0+INT+int16 or +cf (control flow).",
    ),
]
WHOLE = Annotated[
    bool,
    typer.Option(
        "--whole",
        help="Give all of each method to the NPU, by backend id, with integer inputs and outputs, instead of what "
        "the partitioner picks; an operator that it cannot run is an error.",
    ),
]
OUTPUT = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT",
        help="File for the product, or a folder; one that ends in / is made. Default: MODEL's name, here. Several "
        "delegates are numbered.",
    ),
]
ARTIFACTS = Annotated[
    Path | None,
    typer.Option(
        "--artifacts",
        metavar="DIR",
        help="Also write files to inspect there: TOSA, blobs, the map from NPU operations to lines of the "
        "model, Vela's summary, example inputs and the reference's outputs, and a list of them.",
    ),
]
JSON = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write the result there; - for stdout, instead of the files' names."),
]
