"""A sum or product of two results, one of which comes from an activation behind a reshape.

Vela chains operations of an Ethos-U85, and gives all of a chain the shape of the first one
(`SchedulerPacking::PackOperations`). It compares the shapes of neighbours. But an activation that is fused may have
another shape than the operation in front, if a reshape is between the two, and what follows has the activation's. What
the chain reads from elsewhere then has the first one's shape, too. If it was written in that shape, Vela stores it in
bricks of 16 channels, but takes the size of its memory from the shape that it has in the program: 3 rows of one element
take 48 bytes, and have 16. So it overwrites what is placed behind it, or is overwritten. A cosine similarity meets it,
and gates of two flattened branches (`a(x).flatten(1).sigmoid() * b(x).flatten(1).tanh()`). A reduction along another
axis than the last is reshaped by Vela itself.

## Repair

A CLAMP to all values of the type comes before the activation, and is fused in its place. The NPU has one activation in
an operation, so the other one starts a chain of its own, in its own shape. An activation is rewritten where bricks may
take more than the shape in the program; some such programs would have been compiled rightly.
"""

from __future__ import annotations

from fractions import Fraction

from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u85 import U85
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.chains import ACTIVATIONS, ELEMENTWISE, LONGEST, PASSED, origin, reader
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.fused_shape import cut
from ethos_hil.lowering.repairs.rewrites import clamp_before

_BRICK = 16
_DEEP = 8
"""Vela makes operations of elements deeper that have fewer channels (`ReshapeToIncreaseDepth`)."""


def part_activations(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Put a CLAMP to all values before each activation that may give a chain another shape than its first operation."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op in ACTIVATIONS]:
        before = origin(block, operator.inputs[0])
        if before is None or before.op in ACTIVATIONS or not _reads_another(block, operator):
            continue
        if _may_outgrow(block, before, cut(block.tensors[operator.outputs[0]].shape)):
            clamp_before(block, operator)
            repaired.append(operator)
    return repaired


def _reads_another(block: DraftBlock, operator: DraftOperator) -> bool:
    """Return whether a chain behind an activation may read something that another operation makes."""
    following = reader(block, operator)
    for _ in range(LONGEST - 1):
        if following is None or following.op not in ELEMENTWISE:
            return False
        # One operand is what the chain hands over.
        if sum(_is_made(block, name) for name in following.inputs) > 1:
            return True
        following = reader(block, following)
        if following is not None and following.op in ACTIVATIONS:
            following = reader(block, following)
    return False


def _is_made(block: DraftBlock, name: str) -> bool:
    """Return whether an operation makes a tensor."""
    writer = block.producer_behind(name, PASSED)
    return writer is not None and not writer.is_constant


def _may_outgrow(block: DraftBlock, before: DraftOperator, shape: tuple[int, ...]) -> bool:
    """Return whether an operator's own shape may take more memory in bricks than another one of as many elements."""
    made = cut(block.tensors[before.outputs[0]].shape)
    depth = made[-1]
    if before.op.startswith("REDUCE_"):
        # Vela gives a reduction along any axis a shape of one channel, or takes the last axis for it.
        return made[-1] != 1 or made != shape
    if made == shape:
        return False
    if before.op in ELEMENTWISE and depth < _DEEP:
        return True
    return _share(depth) > _share(shape[-1])


def _share(depth: int) -> Fraction:
    """Return what a map in bricks takes for each element."""
    return Fraction(-(-depth // _BRICK) * _BRICK, depth)


DEFECT = VelaDefect(
    id="vela-chained-shape",
    effect="stores what a chain of operations reads in another shape than the one for which it has memory",
    remedy="apply the activation before the reshape, or leave it to the CPU (Method.leave)",
    families=(U85,),
    repair=part_activations,
)
