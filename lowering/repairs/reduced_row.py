"""A maximum along the last axis, behind a reshape of a map with one channel.

Vela finds a maximum, a minimum or the place of one with a pool along a row, so it computes it of a map of one channel
(`DecomposeReduce`). Where the operation in front made such a map (a convolution to one channel, a mean, a product with
a vector), and a reshape takes that axis away, the two agree to hand it over in bricks of 16 channels. But Vela takes
the size of its memory from the shape behind the reshape, where the row is the channels: 3 rows of one element take 48
bytes, and have 16. So the map overwrites what is placed behind it. `conv(x).squeeze(1).amax(-1)` meets it, and scores
of frames of which the largest is asked for.

## Repair

The reduction is computed along the row of a map of one channel, which is the same in the program and in memory.
"""

from __future__ import annotations

import math

from ethos_hil.base.npu.family import Family
from ethos_hil.base.sightings import Sightings
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator, Scalar
from ethos_hil.lowering.repairs.chains import PASSED
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.rewrites import reshape_around

_REDUCTIONS = ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL", "ARGMAX")
_AXIS, _NAN_MODE, _ROW = 0, 1, 2


def reduce_rows(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Reduce each map of one channel whose row a RESHAPE has made the channels along the row."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op in _REDUCTIONS]:
        source = operator.inputs[0]
        shape = block.tensors[source].shape
        axis = operator.old_attribute.Axis()
        if axis != len(shape) - 1 or shape[-1] == 1 or not _was_a_row(block, source, shape[-1]):
            continue
        rows = (1, math.prod(shape[:-1]), shape[-1], 1)
        reshape_around(block, operator, rows, rows[:2] + ((1, 1) if operator.op != "ARGMAX" else (1,)))
        operator.attribute = {_AXIS: Scalar("i", _ROW)}
        if operator.op in ("REDUCE_MAX", "REDUCE_MIN", "ARGMAX"):
            operator.attribute[_NAN_MODE] = Scalar("I", operator.old_attribute.NanMode())
        repaired.append(operator)
    return repaired


def _was_a_row(block: DraftBlock, name: str, size: int) -> bool:
    """Return whether a tensor is another one of `size` rows of one element each, which an operation made."""
    writer = block.producer(name)
    while writer is not None and writer.op in PASSED:
        name = writer.inputs[0]
        if block.tensors[name].shape[-2:] == (size, 1):
            return True
        writer = block.producer(name)
    return False


DEFECT = VelaDefect(
    id="vela-reduced-row",
    effect="stores what a maximum along the last axis reads in another shape than the one for which it has memory",
    remedy="keep the channel until the maximum is found: amax(-2) before the squeeze",
    versions=Sightings(("5.1.0",)),
    repair=reduce_rows,
)
