"""A program that is run to its end, and that an interrupt ends with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from ethos_hil.base.process import dies_with, interrupts_deferred

_END_SECONDS = 10


def run_module(arguments: Sequence[str], variables: Mapping[str, str], seconds: float | None = None) -> tuple[int, str]:
    """Run a module of this Python as a program. Return its status, and what it wrote.

    Args:
        arguments: the module's name, and its arguments.
        variables: environment variables besides our own.
        seconds: how long it may take; None for no limit.

    Raises:
        subprocess.TimeoutExpired: it took longer, and was ended.
    """
    with interrupts_deferred():
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", *arguments],  # -P: a module in the working directory is not the one meant
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            start_new_session=True,  # Ctrl-C is for this process, which ends it
            preexec_fn=dies_with(os.getpid()),
        )
    try:
        said = process.communicate(timeout=seconds)[0]
    finally:
        _end(process)
    return process.returncode, said.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End and reap a program, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
