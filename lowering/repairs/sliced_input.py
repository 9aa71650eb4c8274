"""A slice in front of a reduction, a product, a window of three axes or with padding, or of five dimensions in a batch.

Vela has an operation read a part of a tensor in place of a SLICE's result (`MoveSplitSliceToConsumer`). The steps that
come later do not all know of parts. Reductions and matrix products get another shape for the whole tensor; transposed
convolutions and, on Ethos-U55 and U65, the first factor of a matrix product lose it: they then read another part. A
convolution or pool with padding loses it at the top and left where Vela cuts the operation: with a batch above 1,
dilation above 2, or, on Ethos-U85, strides above 3. There the part's offset is taken for one from which the padding is
known. `x.chunk(2)`, `qkv` of attention with a batch, and a convolution that drops a remainder of its input meet it.

A convolution of three axes becomes several of two, which lose the part or read its first map for all
(`DecomposeConv3D`, `RewriteConv3D`). One with groups meets it: ExecuTorch has each group read a slice of the channels.

Where a slice takes one position of the first of five or more dimensions, and a reshape drops that dimension, an
operation of elements reads the samples behind the first from elsewhere on Ethos-U85; for Ethos-U55 and U65 Vela crashes
(SIGSEGV). The query of an attention, taken from one dense layer in a batch above 1, meets it: `q, k, v = qkv.permute(2,
0, 3, 1, 4)`, then `q * scale`.

## Repair

A CLAMP to all values of the type takes the slice in the operation's place. TOSA has no CLAMP of int32; a slice of that
type in such a place is refused.
"""

from __future__ import annotations

import math

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.chains import PASSED
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.rewrites import CLAMPED, add_clamp

_WINDOWS = ("CONV2D", "DEPTHWISE_CONV2D", "AVG_POOL2D", "MAX_POOL2D")
_MANY_DIMENSIONS = 5
"""Maps of the NPU have four."""


def keep_slices(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Put a CLAMP to all values between each SLICE and the operations that would misread it."""
    repaired = [part for part in _misread(block) if block.tensors[part.outputs[0]].dtype in CLAMPED]
    for operator in repaired:
        add_clamp(block, operator, operator.outputs[0])
    return repaired


def find_slices(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Return each SLICE of another type that an operation would misread: TOSA has no CLAMP for it."""
    return [part for part in _misread(block) if block.tensors[part.outputs[0]].dtype not in CLAMPED]


def _misread(block: DraftBlock) -> list[DraftOperator]:
    return [part for part in block.operators if part.op == "SLICE" and _is_misread(block, part.outputs[0])]


def _is_misread(block: DraftBlock, name: str) -> bool:
    for reader in block.readers(name):
        if reader.op in PASSED:
            if reader.op == "RESHAPE" and _drops_the_first(block, name, reader.outputs[0]):
                return True
            if _is_misread(block, reader.outputs[0]):
                return True
        elif reader.inputs[0] == name and (
            reader.op.startswith("REDUCE_")
            or reader.op in ("ARGMAX", "MATMUL", "TRANSPOSE_CONV2D", "CONV3D")
            or (reader.op in _WINDOWS and reader.old_attribute.PadAsNumpy().any() and _may_be_cut(block, reader))
        ):
            return True
    return False


def _drops_the_first(block: DraftBlock, name: str, reshaped: str) -> bool:
    """Return whether a reshape drops a first dimension of 1, and there are several maps of three dimensions."""
    before, after = block.tensors[name].shape, block.tensors[reshaped].shape
    return len(before) >= _MANY_DIMENSIONS and before[0] == 1 and after == before[1:] and math.prod(after[:-3]) > 1


def _may_be_cut(block: DraftBlock, window: DraftOperator) -> bool:
    """Return whether Vela may cut a convolution or pool: one with a batch, or with steps that the NPU lacks."""
    if block.tensors[window.inputs[0]].shape[0] > 1:
        return True
    attribute = window.old_attribute
    dilation = attribute.DilationAsNumpy().tolist() if hasattr(attribute, "DilationAsNumpy") else [1]
    return max(dilation) > 2 or max(attribute.StrideAsNumpy().tolist()) > 3


DEFECT = VelaDefect(
    id="vela-sliced-input",
    effect="has an operation read another part of a tensor than the slice in front of it takes",
    remedy="slice after the operation, or put an activation between the slice and it",
    repair=keep_slices,
    refuse=find_slices,
)
