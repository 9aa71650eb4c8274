"""The NPU that is meant where the user names none."""

from __future__ import annotations

from ethos_hil.lowering.errors import EthosHilError


def npu_of(npu: str | None, target: str) -> str:
    """Return the name of the NPU to compile for and run on.

    Args:
        npu: as the user wrote it; None where nothing was written.
        target: name of the target. A board has one NPU, and then that one is meant, else the default of `RunRequest`.
            So it is, too, of a target that cannot be asked: what is wrong with it is said where it is made.
    """
    if npu is not None:
        return npu
    from ethos_hil.harness.request import DEFAULT_NPU, DEFAULT_TARGET
    from ethos_hil.harness.targets.registry import find_plugin

    if target == DEFAULT_TARGET:
        return DEFAULT_NPU
    try:
        npus = find_plugin(target).npus
    except EthosHilError:
        return DEFAULT_NPU
    return npus[0] if len(npus) == 1 else DEFAULT_NPU
