"""A maximum that is concatenated or padded.

Vela has an operation write a part of the whole in place of a CONCAT or PAD (`MoveConcatSliceToProducer`), and then
gives a reduction a shape that it takes from the whole (`DecomposeReduce`). Spatial attention (`cat([x.mean(1),
x.amax(1)])`) meets it.

## Repair

A CLAMP to all values of the type writes the part in the reduction's place.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.rewrites import add_clamp

_REDUCTIONS = ("REDUCE_MAX", "REDUCE_MIN")


def keep_reductions(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Put a CLAMP to all values between each reduction and the CONCATs and PADs that read it."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op in _REDUCTIONS]:
        name = operator.outputs[0]
        if block.tensors[name].dtype in ("INT8", "INT16") and is_a_part(block, name):
            add_clamp(block, operator, name)
            repaired.append(operator)
    return repaired


def is_a_part(block: DraftBlock, name: str) -> bool:
    """Return whether a tensor becomes a part of a CONCAT or PAD, perhaps in another shape."""
    for reader in block.readers(name):
        if reader.op in ("CONCAT", "PAD"):
            return True
        if reader.op in ("RESHAPE", "IDENTITY") and is_a_part(block, reader.outputs[0]):
            return True
    return False


DEFECT = VelaDefect(
    id="vela-reduced-part",
    effect="gives a maximum or minimum that becomes a part of a concatenation or padded map the shape of the whole",
    remedy="apply an activation to the maximum before it is concatenated or padded",
    repair=keep_reductions,
)
