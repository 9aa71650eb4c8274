"""A table that is fused with a transposition.

Vela loads the table at 0x4000 of SHRAM, which an Ethos-U55-32 or -64 does not have. It prints "Address out of bounds"
and reports success.

## Repair

The table, which maps each element by itself, moves before the transposition. The defect is recognised in the compiled
stream, by a transfer that ends beyond SHRAM; if one is left, lowering fails.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u55 import U55
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.checks import overruns
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.rewrites import hoist


def free_tables(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Move each int8 TABLE before the TRANSPOSEs and RESHAPEs that feed it."""
    return hoist(block, lambda operator: operator.op == "TABLE" and block.tensors[operator.outputs[0]].dtype == "INT8")


DEFECT = VelaDefect(
    id="vela-table-beyond-shram",
    effect="places a table that it fuses with a transposition beyond the SHRAM of a small Ethos-U55",
    remedy="use --npu ethos-u55-128 or ethos-u55-256, or leave out the permute before sigmoid, hardswish or the like",
    families=(U55,),
    repair=free_tables,
    seen=lambda output: bool(overruns(output.parsed)),
)
