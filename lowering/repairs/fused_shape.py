"""An activation behind a reshape.

Vela cuts elementwise operators of more than four dimensions, or with a batch above 1, and gives them slices
(`DecomposeElementwise`). If it then fuses a TABLE or CLAMP (GELU, SiLU, sigmoid, ReLU with bounds) into the operation
in front, `SchedulerPacking::PackOperations` gives that operation the activation's slice and shape. Where a reshape was
between the two, or where Vela folds the batch of a 1x1 convolution into rows and columns (`RewriteFullyConnected`: each
dense layer over a sequence), the operation then reads padding, upscaled positions, or memory behind its input.
Transformer blocks, detection heads (`view`, `permute`, `sigmoid`) and channel shuffles meet it.

## Repair

An activation of four dimensions with a batch of 1 is not cut. So it is computed in such a shape, between two RESHAPEs,
which cost nothing. An activation is rewritten where the shapes differ or may differ; some such programs would have been
compiled rightly.
"""

from __future__ import annotations

import math

from ethos_hil.base.npu.family import Family
from ethos_hil.base.sightings import Sightings
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.rewrites import reshape_around

_ACTIVATIONS = ("TABLE", "CLAMP")
# Operators whose result has the shape that TOSA states, if its batch is 1; with a larger one they are several.
_PLAIN = ("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D", "MAX_POOL2D", "AVG_POOL2D")
# Operators that are several, or folded as an activation is, where the activation is cut.
_ALIKE = (
    *_PLAIN, "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "ABS", "CLAMP", "TABLE", "NEGATE", "RESCALE", "CAST",
    "SLICE", "CONCAT", "PAD", "RESIZE", "TILE",
)  # fmt: skip


def fold_activations(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Compute each TABLE and CLAMP that Vela would cut and fuse in a shape that it does not cut."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op in _ACTIVATIONS]:
        shape = block.tensors[operator.outputs[0]].shape
        if len(shape) < 4 or math.prod(shape[:-3]) == 1 or _is_alike(block, operator.inputs[0]):
            continue
        folded = (1, math.prod(shape[:-2]), *shape[-2:])
        reshape_around(block, operator, folded, folded)
        repaired.append(operator)
    return repaired


def _is_alike(block: DraftBlock, source: str) -> bool:
    """Return whether the operation that makes an activation's input surely has the activation's shape, or is not fused.

    The activation has more than four dimensions, or a batch above 1.
    """
    reshaped = False
    shape, name = block.tensors[source].shape, source
    writer = block.producer(name)
    while writer is not None and writer.op in ("RESHAPE", "IDENTITY", "RESCALE"):
        reshaped = reshaped or writer.op != "RESCALE"
        name = writer.inputs[0]
        writer = block.producer(name)
    if writer is None:
        return True
    before = block.tensors[name].shape
    if writer.op == "CONV2D" and before[0] > 1 and block.tensors[writer.inputs[1]].shape[1:3] == (1, 1):
        return False  # Vela folds the batch into rows and columns (regor's RewriteFullyConnected)
    if not reshaped:
        return writer.op in _ALIKE
    if writer.op in _PLAIN:
        several = before[0] > 1 and writer.op != "TRANSPOSE_CONV2D"
        return several or before == cut(shape)
    return writer.op in _ALIKE and cut(before) == cut(shape)


def cut(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the four dimensions in which Vela computes an elementwise operator (regor's ReshapeElementwise)."""
    left = list(shape)
    while len(left) > 3 and 1 in left[-3:] and math.prod(left[:-3]) > 1:
        for at in (-1, -2, -3):
            if len(left) > 3 and left[at] == 1:
                del left[at]
    if len(left) > 3:
        left = [1, math.prod(left[:-2]), *left[-2:]]
    return tuple([1] * (4 - len(left)) + left)


DEFECT = VelaDefect(
    id="vela-fused-shape",
    effect="gives an operation the shape of the activation that it fuses into it, though a reshape is between them",
    remedy="apply the activation before the reshape, or use a batch of 1",
    versions=Sightings(("5.1.0",), gone=("5.2.0",)),
    repair=fold_activations,
)
