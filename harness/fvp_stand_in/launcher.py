"""The executables that stand in for the FVPs, and the program behind them:
`python -m ethos_hil.harness.fvp_stand_in FVP_Corstone_SSE-320 ...`.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ethos_hil.base.errors import UsageError, shortage
from ethos_hil.base.process import undo_inherited
from ethos_hil.harness.fvp_stand_in import simulation
from ethos_hil.harness.fvp_stand_in.command_line import OPTIONS, Action, CommandLineError, parse
from ethos_hil.harness.fvp_stand_in.parameters import listing
from ethos_hil.harness.socs.registry import MODELS, FvpModel
from ethos_hil.harness.terminal.standard_streams import open_closed

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.machine import EngineFactory


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


class _Signalled(BaseException):
    """A signal that ends the run."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(executable: str, arguments: Sequence[str], engine: EngineFactory | None = None) -> int:
    """Act as the FVP called `executable`, and return its exit status.

    Args:
        executable: a name in `MODELS`.
        arguments: its command line.
        engine: runs the NPU's jobs, for tests; None is the functional model.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _raise)
    undo_inherited()
    open_closed()
    try:
        status = _run(MODELS[executable], arguments, engine)
        sys.stdout.flush()
        return status
    except CommandLineError as error:
        return simulation.fail(str(error))
    except BrokenPipeError:
        _drop_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        lacking = shortage(error)
        if lacking is None:
            raise
        _drop_output()
        return simulation.fail(f"{lacking.message} ({lacking.hint})")
    except _Signalled as stopped:
        return 128 + stopped.number


def _run(model: FvpModel, arguments: Sequence[str], engine: EngineFactory | None) -> int:
    settings = parse(model, arguments)
    if isinstance(settings, Action):
        sys.stdout.write(answer(settings, model))
        return 0
    return simulation.run(settings, engine)


def _drop_output() -> None:
    """Drop what is left in sys.stdout: Python would try to write it again at exit, and report the error again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def answer(action: Action, model: FvpModel) -> str:
    """Return what `--help`, `--version` or `--list-params` prints."""
    if action is Action.LIST:
        return listing(model)
    if action is Action.HELP:
        lines = [f"  {option.spelling:34} {option.treatment.value}: {option.note}" for option in OPTIONS]
        return f"Usage: {model.fvp.executable} [options] [-a] FILE\n\n" + "\n".join(lines) + "\n"
    from importlib.metadata import version

    return (
        f"{model.fvp.executable}: ethos-hil {version('ethos-hil')}, a virtual {model.soc.name} with a functional "
        f"ethos-{model.npu.family}\n"
        "This is not Arm's Fixed Virtual Platform: same command line, no licence, no cycle accuracy.\n"
    )


def _raise(number: int, frame: FrameType | None) -> None:
    raise _Signalled(number)
