"""Where a question is asked: its target, and the NPU that is meant where the user names none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ethos_hil.base.errors import EthosHilError

if TYPE_CHECKING:
    from ethos_hil.base.question import Question
    from ethos_hil.harness.targets.base import Target
    from ethos_hil.harness.virtual.board import BoardPool


def target_of(
    question: Question, *, pool: BoardPool | None = None, tell: Callable[[str], None] | None = None
) -> Target:
    """Make the target of a question. Arguments and errors are those of `make_target`."""
    from ethos_hil.harness.targets.plugin import TargetOption
    from ethos_hil.harness.targets.registry import make_target

    rules = {option.setting: getattr(question, option.setting) for option in TargetOption if option.flag}
    return make_target(question.target, question.npu_name, pool=pool, tell=tell, **rules)


def npu_of(npu: str | None, target: str) -> str:
    """Return the name of the NPU to compile for and run on.

    Args:
        npu: as the user wrote it; None where nothing was written.
        target: name of the target. A board has one NPU, and then that one is meant, else the default of `Question`.
            So it is, too, of a target that cannot be asked: what is wrong with it is said where it is made.
    """
    if npu is not None:
        return npu
    from ethos_hil.base.options import DEFAULT_NPU, DEFAULT_TARGET

    if target == DEFAULT_TARGET:
        return DEFAULT_NPU
    try:
        return only_npu(target) or DEFAULT_NPU
    except EthosHilError:
        return DEFAULT_NPU


def only_npu(target: str) -> str | None:
    """Return the NPU of a target that has one, None where it can have several.

    Raises:
        UsageError: there is no such target, or the file of the board is wrong.
        ToolError: what knows it is not there.
    """
    from ethos_hil.harness.targets.registry import find_plugin

    npus = find_plugin(target).npus
    return npus[0] if len(npus) == 1 else None
