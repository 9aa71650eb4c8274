"""How the commands of this package start and end."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from ethos_hil.lowering.errors import UsageError


def start(body: Callable[..., None]) -> None:
    """Runs a command on the arguments of the process; unusable ones end in one line and exit status 2."""
    try:
        typer.run(body)
    except UsageError as error:
        sys.stderr.write(f"{error.message} ({error.hint})\n" if error.hint else f"{error.message}\n")
        sys.exit(2)
