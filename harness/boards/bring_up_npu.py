"""Whether an NPU that answers is one of those that a board's file has."""

from __future__ import annotations

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.bring_up_registers import NpuIdentity
from ethos_hil.harness.boards.bring_up_step import StepFinding


def judge_npu(npus: tuple[str, ...], found: NpuIdentity, values: dict[str, object]) -> StepFinding:
    """Compare an NPU with names.

    Args:
        npus: names of the NPUs that it may be.
        found: what it is.
        values: raw values of the step so far.
    """
    values = {**values, "id": f"0x{found.id_word:08x}", "config": f"0x{found.config_word:08x}", "npu": found.name}
    if found.name not in npus:
        return StepFinding.failed(
            FailureKind.WRONG_BOARD,
            f"the NPU is an {found}; expected {' or '.join(npus)}",
            "is it the right board, and the right FPGA image? If so, correct npus in its file",
            values,
        )
    remedy = f'state it in a file of yours: npus = ["{found.name}"]' if len(npus) > 1 else ""
    return StepFinding(str(found), values, remedy=remedy)
