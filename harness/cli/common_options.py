"""The options that most commands share, beside those of a question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEBUG = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
RUNS = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where run folders are kept.")]
