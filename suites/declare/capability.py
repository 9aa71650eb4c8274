"""Reasons to skip a test: a capability that the target lacks for every program, or a package that is not installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import NOWHERE, Question
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.targets.registry import check_npu, find_plugin
from ethos_hil.lowering.vela.memory_mode import MemoryMode


def missing(question: Question) -> Failure | None:
    """Return the capability that is missing to answer a question on an NPU, or None. Nothing is started."""
    try:
        MemoryMode.chosen(question.memory_mode, question.npu_name)
        if question.target != NOWHERE:
            check_npu(find_plugin(question.target), question.npu_name)
    except UsageError as error:
        return Failure(FailureKind.CAPABILITY, error.message, error.hint)
    return None


def missing_packages(packages: Iterable[str]) -> Failure | None:
    """Return a failure that names the `packages` that are not installed, or None. Nothing is imported."""
    names = [name for name in packages if find_spec(name) is None]
    if not names:
        return None
    return Failure(FailureKind.CAPABILITY, f"not installed: {', '.join(names)}", "pip install 'ethos-hil[models]'")
