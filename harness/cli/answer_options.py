"""Options of `run` about its answer: what is expected, what is accepted, and where the outputs go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MIN_SQNR = Annotated[
    float | None,
    typer.Option(
        "--min-sqnr",
        metavar="DB",
        help="Fail where an output's SQNR against the float model in PyTorch is below this number of dB.",
    ),
]
EXPECTED = Annotated[
    Path | None,
    typer.Option(
        metavar="Y.npz",
        help="Compare the outputs with these too: one array per output, by its name or in order; one more leading axis "
        "for several input sets. For equality, unless --atol or --rtol is given.",
    ),
]
ATOL = Annotated[
    float,
    typer.Option("--atol", metavar="X", help="How far a float may be from what is expected. Integers must be equal."),
]
RTOL = Annotated[
    float, typer.Option("--rtol", metavar="X", help="The same, as a fraction of the expected value; both are added.")
]
ALLOW_UNVERIFIED = Annotated[
    bool,
    typer.Option(
        "--allow-unverified", help="Exit status 0 although nothing says what is right, as for a foreign .pte."
    ),
]
OUTPUTS = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.npz",
        help="Write the device's outputs there: one array per output, by its name; one more leading axis where the "
        "program ran several times. --expected reads such a file.",
    ),
]
