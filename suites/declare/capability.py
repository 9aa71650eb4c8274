"""What a target cannot do, whatever the program, and what is not installed: the reason of a test that is skipped."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from ethos_hil.lowering.errors import UsageError
from ethos_hil.lowering.memory_mode import MemoryMode
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.results.record import Failure
from ethos_hil.results.verdict import FailureKind


def missing(target: str | None, npu: NpuName, memory_mode: str | None) -> Failure | None:
    """The capability that is missing for `npu`, or None: found without starting anything.

    Args:
        target: by name; None where nothing is to run.
        npu: what a program is compiled for.
        memory_mode: what it is compiled for, by Vela's name, or None for the NPU's default.
    """
    try:
        MemoryMode.chosen(memory_mode, npu)
        if target == "virtual":
            from ethos_hil.harness.npu import Configuration

            Configuration.parse(npu.name)
        elif target is not None:
            from ethos_hil.harness.targets.fvp import model_for

            model_for(target, npu)
    except UsageError as error:
        return Failure(FailureKind.CAPABILITY, error.message, error.hint)
    return None


def missing_packages(packages: Iterable[str]) -> Failure | None:
    """Of the packages that only some models need those that are not installed, or None. Nothing is imported."""
    names = [name for name in packages if find_spec(name) is None]
    if not names:
        return None
    return Failure(FailureKind.CAPABILITY, f"not installed: {', '.join(names)}", "pip install 'ethos-hil[models]'")
