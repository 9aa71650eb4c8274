"""A transposed convolution that is cropped to one row or column.

Vela sets the stride of a window to 1 along an axis of which one position is computed (`ResetKernelAttributes`). That
holds for all windows but those of a transposed convolution, whose stride is that of its input.

## Repair

A second row or column is computed, and cut off behind the RESCALE that is fused with the convolution. Where the NPU
lacks the wider form (strides that differ, on Ethos-U55 and U65) the model is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator, Numbers, Scalar
from ethos_hil.lowering.repairs.defect import VelaDefect


def widen_crops(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Compute a second row or column of each TRANSPOSE_CONV2D of which one stays, and cut it off."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op == "TRANSPOSE_CONV2D"]:
        attribute = operator.old_attribute
        stride, pads = attribute.StrideAsNumpy().tolist(), attribute.OutPadAsNumpy().tolist()
        source, shape = block.tensors[operator.inputs[0]].shape, block.tensors[operator.outputs[0]].shape
        start, size = [0] * 4, list(shape)
        for axis in (1, 2):
            first, last = 2 * (axis - 1), 2 * (axis - 1) + 1
            if shape[axis] != 1 or source[axis] == 1 or stride[axis - 1] == 1:
                continue
            size[axis] = 2
            start[axis] = 0 if pads[last] < 0 else 1
            pads[last if pads[last] < 0 else first] += 1
        if size == list(shape):
            continue
        set_out_pad(operator, pads)
        _cut(block, operator, size, start)
        repaired.append(operator)
    return repaired


def set_out_pad(operator: DraftOperator, pads: Sequence[int]) -> None:
    """Give a TRANSPOSE_CONV2D another padding of its result: top, bottom, left, right."""
    attribute = operator.old_attribute
    operator.attribute = {
        0: Numbers(tuple(pads)),
        1: Numbers(tuple(attribute.StrideAsNumpy().tolist())),
        2: Scalar("B", int(attribute.LocalBound())),
        3: Scalar("I", attribute.AccType()),
    }


def _cut(block: DraftBlock, operator: DraftOperator, size: list[int], start: list[int]) -> None:
    """Give an operator's result a larger shape, and take what it was before by a SLICE."""
    last, fused = operator, block.only_reader(operator.outputs[0])
    if fused is not None and fused.op == "RESCALE":
        block.set_shape(operator.outputs[0], size)
        last = fused
    name = last.outputs[0]
    larger = block.tensor(name, size, block.tensors[name].dtype)
    last.outputs = [larger]
    cut = block.add(last, "SLICE", [larger, "", ""], [name], {}, after=True)
    cut.inputs[1:] = [block.shape(cut, start), block.shape(cut, block.tensors[name].shape)]


DEFECT = VelaDefect(
    id="vela-cropped-transpose-conv",
    effect="takes the stride of a transposed convolution for 1 along an axis of which one position stays",
    remedy="crop less, and slice the result",
    repair=widen_crops,
)
