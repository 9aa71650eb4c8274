"""A padded average pool with a stride above 3 whose result is a part of a larger map: Vela misplaces the sums.

Vela 5.1 adds the taps of such a pool up in a map of sums on Ethos-U85, and divides them after that. It adds the place
of the result in the larger map to the address of the sums, too: that of a sample in a batch, or of a part in a CONCAT
or PAD. The sums are then behind what was reserved for them. So the pool is split, one for each sample, and a CLAMP to
all values puts the result in its place.
"""

from __future__ import annotations

from tosa.AvgPool2dAttribute import AvgPool2dAttribute

from ethos_hil.lowering.formats.forward_flatbuffer import Scalar
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.npu_name import Family
from ethos_hil.lowering.repairs.reduce_min import clamped
from ethos_hil.lowering.repairs.reduced_concat import is_a_part

_LARGEST_STRIDE = 3
"""Of the pools that the NPU computes in one operation."""


def split_averages(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Make an AVG_POOL2D of each sample, with a CLAMP to all values behind it, and a CONCAT of the results."""
    found = []
    for operator in [each for each in block.operators if each.op == "AVG_POOL2D" and _has_sums(each)]:
        if block.tensors[operator.inputs[0]].shape[0] > 1:
            _split(block, operator)
            found.append(operator)
        elif is_a_part(block, operator.outputs[0]):
            clamped(block, operator, operator.outputs[0])
            found.append(operator)
    return found


def _has_sums(operator: DraftOperator) -> bool:
    attribute = operator.read(AvgPool2dAttribute)
    return max(attribute.StrideAsNumpy().tolist()) > _LARGEST_STRIDE and any(attribute.PadAsNumpy().tolist())


def _split(block: DraftBlock, operator: DraftOperator) -> None:
    source, *zeros = operator.inputs
    shape, made = block.tensors[source].shape, block.tensors[operator.outputs[0]]
    averages = []
    for number in range(shape[0]):
        sample = block.slice(operator, source, (number, 0, 0, 0), (1, *shape[1:]))
        average = block.tensor(operator.outputs[0], (1, *made.shape[1:]), made.dtype)
        averages.append((block.add(operator, "AVG_POOL2D", [sample, *zeros], [average], like=operator), average))
    block.add(operator, "CONCAT", [name for _, name in averages], operator.outputs, {0: Scalar("i", 0)})
    block.operators.remove(operator)
    for pool, name in averages:
        clamped(block, pool, name)
