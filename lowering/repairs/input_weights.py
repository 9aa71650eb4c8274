"""Weights that are computed.

On Ethos-U85, a convolution whose weights are an input or are computed gets the first channel's scale for all channels.

## Repair

None is known. The model is refused.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u85 import U85
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import VelaDefect

CONVOLUTIONS = ("CONV2D", "DEPTHWISE_CONV2D", "CONV3D", "TRANSPOSE_CONV2D")
MOVED = ("RESHAPE", "TRANSPOSE", "IDENTITY")
"""Operators that only move or name elements: what they make of a constant is one for Vela."""


def find_input_weights(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Return each convolution whose weights are computed, and whose channels have scales of their own."""
    return [
        operator
        for operator in block.operators
        if operator.op in CONVOLUTIONS
        and not _is_constant(block, operator.inputs[1])
        and any(reader.op == "RESCALE" and _per_channel(reader) for reader in block.readers(operator.outputs[0]))
    ]


def _is_constant(block: DraftBlock, name: str) -> bool:
    writer = block.producer_behind(name, MOVED)
    return writer is not None and writer.op == "CONST"


def _per_channel(rescale: DraftOperator) -> bool:
    return bool(rescale.old_attribute.PerChannel())


DEFECT = VelaDefect(
    id="vela-input-weights",
    effect="gives all channels of a convolution whose weights are computed the first channel's scale",
    remedy="make the weights a parameter, or write the convolution as a matrix product",
    families=(U85,),
    refuse=find_input_weights,
)
