"""A sum of int16 with scales that differ by a power of two.

On Ethos-U55 and U65, Vela fuses the operands' scales into a sum of int16, and writes the other operand's shift to a
register that the NPU does not look at: it shifts by a fixed number of bits.

## Repair

None is known. The model is refused. Scales that are powers of two are rare; they come from fixed ranges.
"""

from __future__ import annotations

import numpy as np

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import WITHOUT_U85, VelaDefect


def find_shifted_operands(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Return each sum of int16 whose operands have scales that are different powers of two."""
    operators = []
    for operator in block.operators:
        if operator.op in ("ADD", "SUB"):
            factors = [_power_of_int16(block, name) for name in operator.inputs[:2]]
            if None not in factors and factors[0] != factors[1]:
                operators.append(operator)
    return operators


def _power_of_int16(block: DraftBlock, name: str) -> int | None:
    """Return the exponent of a RESCALE from int16 by a power of two that makes a tensor; None for anything else."""
    writer = block.producer(name)
    if writer is None or writer.op != "RESCALE" or block.tensors[writer.inputs[0]].dtype != "INT16":
        return None
    multiplier, shift = (_only(block.constant(value)) for value in writer.inputs[1:3])
    if multiplier is None or shift is None or multiplier <= 0 or multiplier & (multiplier - 1):
        return None
    return multiplier.bit_length() - 1 - shift


def _only(values: np.ndarray | None) -> int | None:
    return int(values[0]) if values is not None and len(values) == 1 else None


DEFECT = VelaDefect(
    id="vela-shifted-operands",
    effect="fuses the scales of two int16 operands that differ by a power of two into a sum that has no such setting",
    remedy="use scheme a8w8 for this sum, or calibrate with inputs of another range",
    families=WITHOUT_U85,
    refuse=find_shifted_operands,
)
