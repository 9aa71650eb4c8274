"""Convolutions with the same weights and other biases; transposed ones with `output_padding`.

Vela encodes weights, scales and biases into one stream. It keeps the stream for operations with the same weights, and
looks whether their scales are the same, but not whether their biases are (`EncodeWeightAndScaleTensor`). The second
convolution gets the first one's bias. Scales are the same where the outputs of both are concatenated, and the inputs
have one scale.

Operations of Vela's own meet it, too, on Ethos-U55 and U65. The rows and columns that a transposed convolution is to
add (`output_padding`) are filled with its bias by a depthwise convolution whose weights are 1
(`CreateBiasFillForPadding`). So two transposed convolutions with as many channels meet it: the second one's added rows
and columns have the first one's bias.

## Repair

The weights of the second convolution get a row of zeros at the bottom (those of the third two, and so on), and its map
as many rows of padding: they are other weights then, and add nothing to the sums. A transposed convolution gets as many
rows and columns of zeros around its weights as it adds, which then need no filling. The other one of the two keeps its
form. This costs the multiplications by zero.

## Without the repair

Instead of `output_padding`, pad the result of a transposed convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator, Numbers, Scalar
from ethos_hil.lowering.repairs.cropped_transpose_conv import set_out_pad
from ethos_hil.lowering.repairs.defect import VelaDefect

Shared = Callable[[DraftBlock, DraftOperator], Hashable]
"""Returns what an operator has in common with others, or None."""
_PLAIN = ("CONV2D", "DEPTHWISE_CONV2D")
_ROWS = {"CONV2D": 1, "DEPTHWISE_CONV2D": 0, "TRANSPOSE_CONV2D": 1}
"""The axis of the weights that has the rows; the next one has the columns."""


def part_biases(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Give each convolution that shares weights and scales, but not the bias, weights of its own."""
    repaired = []
    for operator, number in _others(block, _weights):
        _lengthen(block, operator, number)
        repaired.append(operator)
    for operator, _ in _others(block, _fill) if family.fills_borders else ():
        _fill_itself(block, operator)
        repaired.append(operator)
    return repaired


def _others(block: DraftBlock, shared: Shared) -> list[tuple[DraftOperator, int]]:
    """Return the convolutions that share something and have another bias than the first one, and its number."""
    biases: dict[Hashable, list[bytes | None]] = {}
    others = []
    for operator in block.operators:
        key = shared(block, operator)
        if key is not None:
            seen, bias = biases.setdefault(key, []), block.data(operator.inputs[2])
            if bias not in seen:
                seen.append(bias)
            if bias != seen[0]:
                others.append((operator, seen.index(bias)))
    return others


def _weights(block: DraftBlock, operator: DraftOperator) -> Hashable:
    """Return a convolution's weights, and the scales of the RESCALE that Vela fuses with it; None if it has none."""
    weights = block.constant(operator.inputs[1]) if operator.op in _PLAIN else None
    if weights is None:
        return None
    reader = block.only_reader(operator.outputs[0])
    fused = reader.inputs[1:3] if reader is not None and reader.op == "RESCALE" else ()
    scales = tuple(block.data(name) for name in fused)
    return weights.shape, weights.tobytes(), scales


def _fill(block: DraftBlock, operator: DraftOperator) -> Hashable:
    """Return how many weights of 1, of one scale, fill what a transposed convolution adds; None if it adds nothing."""
    if operator.op != "TRANSPOSE_CONV2D" or block.constant(operator.inputs[1]) is None:
        return None
    if max(operator.old_attribute.OutPadAsNumpy()) <= 0:
        return None
    return block.tensors[operator.outputs[0]].shape[-1]


def _lengthen(block: DraftBlock, operator: DraftOperator, rows: int) -> None:
    """Add rows of zeros below a convolution's weights, and as much padding below its map."""
    attribute = operator.old_attribute
    dilation = attribute.DilationAsNumpy()
    pads = attribute.PadAsNumpy().copy()
    pads[1] += rows * attribute.Dilation(0)
    _surround(block, operator, [0, rows, 0, 0])
    operator.attribute = {
        0: _numbers(pads),
        1: _numbers(attribute.StrideAsNumpy()),
        2: _numbers(dilation),
        3: Scalar("B", int(attribute.LocalBound())),
        4: Scalar("I", attribute.AccType()),
    }


def _fill_itself(block: DraftBlock, operator: DraftOperator) -> None:
    """Add as many rows and columns of zeros around a transposed convolution's weights as it adds to its result."""
    pads = operator.old_attribute.OutPadAsNumpy()
    _surround(block, operator, np.maximum(pads, 0))
    set_out_pad(operator, np.minimum(pads, 0).tolist())


def _surround(block: DraftBlock, operator: DraftOperator, edges: Sequence[int] | np.ndarray) -> None:
    """Put zeros around a convolution's weights: at the top, the bottom, the left and the right."""
    weights, zero = block.constant(operator.inputs[1]), block.constant(operator.inputs[4])
    assert weights is not None
    around, rows = [(0, 0)] * weights.ndim, _ROWS[operator.op]
    around[rows : rows + 2] = [(edges[0], edges[1]), (edges[2], edges[3])]
    wider = np.pad(weights, around, constant_values=0 if zero is None else int(zero[0]))
    operator.inputs[1] = block.const(operator, wider, block.tensors[operator.inputs[1]].dtype)


def _numbers(values: np.ndarray) -> Numbers:
    return Numbers(tuple(values.tolist()))


DEFECT = VelaDefect(
    id="vela-shared-bias",
    effect="gives a convolution the bias of another one with the same weights and scales",
    remedy="give the two convolutions weights of their own, or do not concatenate their outputs",
    repair=part_biases,
)
