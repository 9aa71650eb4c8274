"""Two look-up tables that follow each other with operations of elements between them, of which one is of int16.

Vela chains up to four operations of an Ethos-U85, and fuses a TABLE into each. All tables of a chain are brought to the
NPU's memory for tables before the chain starts (`InsertLUTDMACommands`). A table of int16 takes the whole of that
memory. The search for a place (`AllocateLutSlot`) does not spare what the same chain has brought already, so the last
table stands where all of them are read. With `--scheme a16w8`, `logit` and cells like an LSTM's or a GRU's (`tanh(c +
sigmoid(x) * h)`) meet it.

## Repair

A CLAMP to all values of the type comes before the second TABLE. The NPU has one activation in an operation, so the
TABLE starts a chain of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u85 import U85
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.chains import ACTIVATIONS, ELEMENTWISE, LONGEST, origin
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.rewrites import clamp_before


def part_tables(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Put a CLAMP to all values before each TABLE that Vela may chain with another one that leaves it no room."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op == "TABLE"]:
        before = origin(block, operator.inputs[0])
        if before is not None and any(_collide(block, operator, other) for other in _chained(block, before, LONGEST)):
            clamp_before(block, operator)
            repaired.append(operator)
    return repaired


def _collide(block: DraftBlock, first: DraftOperator, second: DraftOperator) -> bool:
    """Return whether two different tables have no room beside each other."""
    wide = any(block.tensors[table.inputs[0]].dtype == "INT16" for table in (first, second))
    return wide and block.data(first.inputs[1]) != block.data(second.inputs[1])


def _chained(block: DraftBlock, operator: DraftOperator, left: int) -> Iterator[DraftOperator]:
    """Yield the TABLEs that Vela may have in one chain with what follows an operator.

    Args:
        block: the program.
        operator: the last operator that is known to be in the chain.
        left: how many operations the chain may have up to this one, with it.
    """
    if operator.op not in ELEMENTWISE or left < 2:
        return
    for name in dict.fromkeys(operator.inputs):
        writer = origin(block, name)
        if writer is not None and writer.op in ACTIVATIONS:
            if writer.op == "TABLE":
                yield writer
            writer = origin(block, writer.inputs[0])
        if writer is not None and writer.op not in ACTIVATIONS:
            yield from _chained(block, writer, left - 1)


DEFECT = VelaDefect(
    id="vela-chained-tables",
    effect="overwrites a look-up table with another one before the operation that reads it has started",
    remedy="use scheme a8w8 for one of the two activations, or leave it to the CPU (Method.leave)",
    families=(U85,),
    repair=part_tables,
)
