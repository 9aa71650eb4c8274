"""Ask a program for a few lines, such as its version, with a time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

SECONDS = 10.0
"""A program that is there answers in a few milliseconds; an FVP in a second or two."""


def ask(command: Sequence[str], seconds: float = SECONDS) -> list[str] | str:
    """Return the lines that a program writes, or a short reason why there are none.

    After `seconds` the program is killed with its process group.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group to end as a whole
            text=True,
            errors="replace",
        )
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    with process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            output = None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    if output is None:
        return f"it did not answer in {seconds:g} s"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if lines and process.returncode == 0:
        return lines
    said = f" and said {lines[-1]!r}" if lines else ""
    return f"it ended with status {process.returncode}{said}"
