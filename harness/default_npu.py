"""The NPU that is meant where the user names none."""

from __future__ import annotations

from ethos_hil.harness.request import DEFAULT_NPU, DEFAULT_TARGET
from ethos_hil.lowering.errors import EthosHilError


def npu_of(npu: str | None, target: str) -> str:
    """Return the name of the NPU to compile for and run on.

    Args:
        npu: as the user wrote it; None where nothing was written.
        target: name of the target. A board has one NPU, and then that one is meant.
    """
    return npu if npu is not None else default_npu(target)


def default_npu(target: str) -> str:
    """Return the only NPU that a target can have, or DEFAULT_NPU where it can have several, or cannot be asked."""
    from ethos_hil.harness.targets.registry import find_plugin

    if target == DEFAULT_TARGET:
        return DEFAULT_NPU
    try:
        npus = find_plugin(target).npus
    except EthosHilError:  # said where the target is made
        return DEFAULT_NPU
    return npus[0] if len(npus) == 1 else DEFAULT_NPU
