"""A padded average pool with a stride above 3, in a batch or concatenated.

Vela adds the taps of such a pool in a map of sums, and divides them after that. The sums have room for one sample.
Where the pool's result is a part of a larger map (a sample of a batch, or a part of a CONCAT or PAD), the place of the
part is added to the address of the sums, too. So they are written behind their room: beyond the memory that the program
says it needs, or over something else.

## Repair

The pool is split into one for each sample. A CLAMP to all values of the type puts each result in its place.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u85 import U85
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator, Scalar
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.reduced_part import is_a_part
from ethos_hil.lowering.repairs.rewrites import add_clamp

_LARGEST_STRIDE = 3
"""Of the pools that the NPU computes in one operation."""


def split_averages(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Make an AVG_POOL2D of each sample, with a CLAMP to all values behind it, and a CONCAT of the results."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op == "AVG_POOL2D" and _has_sums(operator)]:
        if block.tensors[operator.inputs[0]].shape[0] > 1:
            _split(block, operator)
            repaired.append(operator)
        elif is_a_part(block, operator.outputs[0]):
            add_clamp(block, operator, operator.outputs[0])
            repaired.append(operator)
    return repaired


def _has_sums(operator: DraftOperator) -> bool:
    attribute = operator.old_attribute
    return max(attribute.StrideAsNumpy().tolist()) > _LARGEST_STRIDE and any(attribute.PadAsNumpy().tolist())


def _split(block: DraftBlock, operator: DraftOperator) -> None:
    source, *zeros = operator.inputs
    shape, result = block.tensors[source].shape, block.tensors[operator.outputs[0]]
    averages = []
    for number in range(shape[0]):
        sample = block.slice(operator, source, (number, 0, 0, 0), (1, *shape[1:]))
        average = block.tensor(operator.outputs[0], (1, *result.shape[1:]), result.dtype)
        averages.append((block.add(operator, "AVG_POOL2D", [sample, *zeros], [average], like=operator), average))
    block.add(operator, "CONCAT", [name for _, name in averages], operator.outputs, {0: Scalar("i", 0)})
    block.operators.remove(operator)
    for pool, name in averages:
        add_clamp(block, pool, name)


DEFECT = VelaDefect(
    id="vela-batched-average",
    effect="writes the sums of an average pool that is a part of a larger map behind the memory that it reserves for "
    "them",
    remedy="use a stride of at most 3, or a batch of 1 and an activation behind the pool",
    families=(U85,),
    repair=split_averages,
)
