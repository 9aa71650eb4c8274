"""A RESCALE by one that saturates, and another behind it.

Vela leaves out a RESCALE with a factor of exactly 1 and without zero points, and what is in front of it gets the scale
of the next. The numbers that the first cuts off at the limits of its type are not cut off then. ExecuTorch makes such
pairs where an operator has the scale of what is in front of it: a clamp of sums of 32 bits that an addition reads.

## Repair

A CLAMP to all values of the type between the two.
"""

from __future__ import annotations

import numpy as np

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.rewrites import CLAMPED, clamp_before

_PASSED = ("RESHAPE", "IDENTITY")


def keep_saturation(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Put a CLAMP to all values in front of each RESCALE that alone reads one that only saturates."""
    repaired = []
    for operator in [operator for operator in block.operators if _only_saturates(block, operator)]:
        reader = block.only_reader_behind(operator.outputs[0], _PASSED)
        if reader is not None and reader.op == "RESCALE":
            clamp_before(block, reader)
            repaired.append(reader)
    return repaired


def _only_saturates(block: DraftBlock, operator: DraftOperator) -> bool:
    """Whether an operator is a RESCALE to fewer bits, with a factor of 1 for all channels and without zero points."""
    if operator.op != "RESCALE":
        return False
    source, result = (block.tensors[name].dtype for name in (operator.inputs[0], operator.outputs[0]))
    if result not in CLAMPED or int(source.removeprefix("INT")) <= int(result.removeprefix("INT")):
        return False
    multiplier, shift, *zeros = (block.constant(name) for name in operator.inputs[1:])
    if multiplier is None or shift is None or any(zero is not None and zero.any() for zero in zeros):
        return False
    return bool((multiplier == 1 << shift.astype(np.int64)).all())


DEFECT = VelaDefect(
    id="vela-lost-saturation",
    effect="leaves out a RESCALE by one, and with it the limits of its type",
    remedy="lower without --as-upstream",
    repair=keep_saturation,
)
