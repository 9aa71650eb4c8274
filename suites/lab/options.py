"""Options that several parts of the laboratory have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

CORES = os.cpu_count() or 1
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every ending.")]
