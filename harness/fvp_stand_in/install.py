"""Write the executables that stand in for the FVPs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.socs.fvps import MODELS


def install(folder: Path) -> list[Path]:
    """Write one executable for each FVP to `folder`, and return their paths. They run with the current Python.

    Raises:
        UsageError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_write(folder / executable, executable) for executable in MODELS]
    except OSError as error:
        raise UsageError(f"the FVP launchers cannot be written to {folder}: {error.strerror}") from error


def _write(path: Path, executable: str) -> Path:
    # A shell, because the kernel accepts neither blanks nor long paths after #!. -I: ignore the caller's Python setup.
    python = f"{shlex.quote(sys.executable)} -I -m ethos_hil.harness.fvp_stand_in"
    path.write_text(f'#!/bin/sh\nexec {python} {executable} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path
