"""The program behind the three executables: `python -m ethos_hil.harness.fvp_stand_in FVP_Corstone_SSE-320 ...`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

from ethos_hil.harness.fvp_stand_in import simulation
from ethos_hil.harness.fvp_stand_in.command_line import Action, CommandLineError, parse
from ethos_hil.harness.socs.fvps import MODELS, FvpModel

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.machine import EngineFactory


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
    model = MODELS[executable]
    try:
        settings = parse(model, arguments)
        if isinstance(settings, Action):
            sys.stdout.write(_answer(settings, model))
            return 0
        return simulation.run(settings, engine)
    except CommandLineError as error:
        return simulation.fail(str(error))
    except BrokenPipeError:
        sys.stdout = None  # Python would report the broken pipe again at exit
        return 128 + signal.SIGPIPE
    except _Signalled as stopped:
        return 128 + stopped.number


def _answer(action: Action, model: FvpModel) -> str:
    if action is Action.LIST:
        from ethos_hil.harness.fvp_stand_in.parameters import listing

        return listing(model)
    if action is Action.HELP:
        from ethos_hil.harness.fvp_stand_in.options import OPTIONS

        lines = [f"  {option.spelling:34} {option.treatment.value}: {option.note}" for option in OPTIONS]
        return f"Usage: {model.fvp.executable} [options] [-a] FILE\n\n" + "\n".join(lines) + "\n"
    from importlib.metadata import version

    return (
        f"{model.fvp.executable}: ethos-hil {version('ethos-hil')}, a virtual {model.soc.name} with a functional "
        f"{model.npu.family}\n"
        "This is not Arm's Fixed Virtual Platform: same command line, no licence, no cycle accuracy.\n"
    )


def _raise(number: int, frame: FrameType | None) -> None:
    raise _Signalled(number)
