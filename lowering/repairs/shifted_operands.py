"""A sum of int16 with scales that are different whole numbers.

On Ethos-U55 and U65, Vela fuses the operands' scales into a sum of int16, and writes the other operand's shift to a
register that the NPU does not look at: it shifts by a fixed number of bits. `x - 128` with x up to 119 meets it: the
factors are 1904 and 2048.

## Repair

The multiplier of one RESCALE is one larger. That changes no number: what it adds to a product of 16 bits is too small
to be rounded up.
"""

from __future__ import annotations

import numpy as np

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import WITHOUT_U85, VelaDefect

_LEAST_SHIFT = 17
"""2^15 * 2^-17, the most that one more in the multiplier adds, is a quarter, and is rounded off. Of factors from 2^14
on, which have other shifts, Vela fuses none.
"""


def bend_scales(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Let no sum of int16 have two scales that are different whole numbers."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op in ("ADD", "SUB")]:
        (first, shift), (second, other) = (_scale(block, name) for name in operator.inputs[:2])
        whole = first and second and not first % (1 << shift) and not second % (1 << other)
        if whole and first >> shift != second >> other and min(shift, other) >= _LEAST_SHIFT:
            writer = block.producer(operator.inputs[0])
            assert writer is not None, "it has a scale"
            writer.inputs[1] = block.const(writer, np.array([first + 1], np.int32), "INT32")
            repaired.append(operator)
    return repaired


def _scale(block: DraftBlock, name: str) -> tuple[int, int]:
    """Return the multiplier and the shift of a RESCALE from int16 that makes a tensor; zeros for anything else."""
    writer = block.producer(name)
    if writer is None or writer.op != "RESCALE" or block.tensors[writer.inputs[0]].dtype != "INT16":
        return 0, 0
    multiplier, shift = (block.constant(value) for value in writer.inputs[1:3])
    if multiplier is None or shift is None or len(multiplier) != 1:
        return 0, 0
    return int(multiplier[0]), int(shift[0])


DEFECT = VelaDefect(
    id="vela-shifted-operands",
    effect="fuses the scales of two int16 operands that are whole numbers into a sum that has no such setting",
    remedy="lower without --as-upstream",
    families=WITHOUT_U85,
    repair=bend_scales,
)
