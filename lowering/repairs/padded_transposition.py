"""An activation between a transposition and a concatenation or padding.

On Ethos-U55 and U65, and behind a convolution on Ethos-U85, Vela fuses a TABLE or CLAMP with the transposition in front
of it, and writes the result, which is a part of a padded or concatenated map, with the strides of a map of its own.

## Repair

The activation, which maps each element by itself, moves before the transposition.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.rewrites import hoist


def free_padded(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Move each activation whose result is padded or concatenated before the transpositions that feed it."""

    def is_padded(operator: DraftOperator) -> bool:
        if operator.op not in ("TABLE", "CLAMP") or block.tensors[operator.outputs[0]].dtype not in ("INT8", "INT16"):
            return False
        return any(reader.op in ("PAD", "CONCAT") for reader in _behind(block, operator.outputs[0]))

    return hoist(block, is_padded)


def _behind(block: DraftBlock, name: str) -> list[DraftOperator]:
    """Return the operators that read a tensor, or a reshape of it."""
    readers: list[DraftOperator] = []
    for reader in block.readers(name):
        readers += _behind(block, reader.outputs[0]) if reader.op in ("RESHAPE", "IDENTITY") else [reader]
    return readers


DEFECT = VelaDefect(
    id="vela-padded-transposition",
    effect="writes an activation that it fuses with a transposition with the strides of a map without padding",
    remedy="apply the activation before the permute",
    repair=free_padded,
)
