"""A minimum whose dimension is dropped.

An Ethos-U55 or U65 can only find maxima. Vela inverts the values, reduces, and inverts again by a subtraction
(`RewriteReduceMin`). A RESHAPE that follows has been removed by then, so the subtraction's output has the shape behind
it, and its operand the one before: the NPU broadcasts that operand's first element over all. `x.amin(-1)` of a matrix
meets it.

## Repair

A CLAMP to all values of the type keeps the RESHAPE away from the minimum. Vela fuses it into the subtraction.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import WITHOUT_U85, VelaDefect
from ethos_hil.lowering.repairs.rewrites import add_clamp

_RESHAPES = ("RESHAPE", "IDENTITY", "TRANSPOSE")


def keep_minima(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Put a CLAMP to all values between each REDUCE_MIN and the RESHAPEs that read it."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op == "REDUCE_MIN"]:
        name = operator.outputs[0]
        if block.tensors[name].dtype not in ("INT8", "INT16") or not any(
            reader.op in _RESHAPES for reader in block.readers(name)
        ):
            continue
        add_clamp(block, operator, name)
        repaired.append(operator)
    return repaired


DEFECT = VelaDefect(
    id="vela-reduce-min",
    effect="subtracts the first of all minima from each of them, where a reshape follows",
    remedy="keep the dimension (keepdim=True)",
    families=WITHOUT_U85,
    repair=keep_minima,
)
