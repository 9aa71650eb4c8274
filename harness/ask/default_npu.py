"""The NPU that is meant where the user names none."""

from __future__ import annotations

from ethos_hil.base.errors import EthosHilError


def npu_of(npu: str | None, target: str) -> str:
    """Return the name of the NPU to compile for and run on.

    Args:
        npu: as the user wrote it; None where nothing was written.
        target: name of the target. A board has one NPU, and then that one is meant, else the default of `Question`.
            So it is, too, of a target that cannot be asked: what is wrong with it is said where it is made.
    """
    if npu is not None:
        return npu
    from ethos_hil.base.question import DEFAULT_NPU, DEFAULT_TARGET

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
