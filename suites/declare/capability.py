"""Reasons to skip a test: a capability that the target lacks for every program, or a package that is not installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.targets.registry import check_npu, find_plugin
from ethos_hil.lowering.vela.memory_mode import MemoryMode


def missing(target: str | None, npu: EthosU, memory_mode: str | None) -> Failure | None:
    """Return the capability that is missing for `npu`, or None. Nothing is started.

    Args:
        target: the target's name; None where nothing runs.
        npu: the NPU that a program is compiled for.
        memory_mode: Vela's name of the mode that it is compiled for, or None for the NPU's default.
    """
    try:
        MemoryMode.chosen(memory_mode, npu)
        if target is not None:
            check_npu(find_plugin(target), npu)
    except UsageError as error:
        return Failure(FailureKind.CAPABILITY, error.message, error.hint)
    return None


def missing_packages(packages: Iterable[str]) -> Failure | None:
    """Return a failure that names the `packages` that are not installed, or None. Nothing is imported."""
    names = [name for name in packages if find_spec(name) is None]
    if not names:
        return None
    return Failure(FailureKind.CAPABILITY, f"not installed: {', '.join(names)}", "pip install 'ethos-hil[models]'")
