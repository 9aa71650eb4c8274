"""What a target cannot do, whatever the program: the reason of a test that is skipped."""

from __future__ import annotations

from lowering.errors import UsageError
from lowering.memory_mode import MemoryMode
from lowering.profile import Npu
from results.record import Failure

KIND = "capability"
"""Of the failure that says why a record's verdict is skipped."""


def missing(target: str | None, npu: Npu, memory_mode: str | None) -> Failure | None:
    """The capability that is missing for `npu`, or None: found without starting anything.

    Args:
        target: by name; None where nothing is to run.
        npu: what a program is compiled for.
        memory_mode: what it is compiled for, by Vela's name, or None for the NPU's default.
    """
    try:
        MemoryMode.chosen(memory_mode, npu)
        if target == "virtual":
            from harness.npu import Configuration

            Configuration.parse(npu.name)
        elif target is not None:
            from harness.targets.fvp import model_for

            model_for(target, npu)
    except UsageError as error:
        return Failure(KIND, error.message, error.hint)
    return None
