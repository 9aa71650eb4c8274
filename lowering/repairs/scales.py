"""Scales that Vela fuses into something else. No rewriting is known that avoids these."""

from __future__ import annotations

import numpy as np
from tosa.RescaleAttribute import RescaleAttribute

from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.npu_name import Family

_CONVOLUTIONS = ("CONV2D", "DEPTHWISE_CONV2D", "CONV3D", "TRANSPOSE_CONV2D")


def find_input_weights(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Return each convolution whose weights are computed, and whose channels have scales of their own.

    On Ethos-U85, all channels get the first one's.
    """
    return [
        operator
        for operator in block.operators
        if operator.op in _CONVOLUTIONS
        and not _is_constant(block, operator.inputs[1])
        and any(each.op == "RESCALE" and _per_channel(each) for each in block.readers(operator.outputs[0]))
    ]


def find_shifted_operands(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Return each sum of int16 whose operands have scales that are different powers of two.

    On Ethos-U55 and U65, Vela fuses the scales in a way for which there is no setting: the operand that is not scaled
    is shifted by a fixed number of bits.
    """
    found = []
    for operator in block.operators:
        if operator.op in ("ADD", "SUB"):
            factors = [_power_of_int16(block, name) for name in operator.inputs[:2]]
            if None not in factors and factors[0] != factors[1]:
                found.append(operator)
    return found


def _is_constant(block: DraftBlock, name: str) -> bool:
    writer = block.producer(name)
    while writer is not None and writer.op in ("RESHAPE", "TRANSPOSE", "IDENTITY"):
        writer = block.producer(writer.inputs[0])
    return writer is not None and writer.op == "CONST"


def _per_channel(rescale: DraftOperator) -> bool:
    return bool(rescale.read(RescaleAttribute).PerChannel())


def _power_of_int16(block: DraftBlock, name: str) -> int | None:
    """Return the exponent of a RESCALE from int16 by a power of two that makes a tensor; None for anything else."""
    writer = block.producer(name)
    if writer is None or writer.op != "RESCALE" or block.tensors[writer.inputs[0]].dtype != "INT16":
        return None
    multiplier, shift = (_only(block.constant(each)) for each in writer.inputs[1:3])
    if multiplier is None or shift is None or multiplier <= 0 or multiplier & (multiplier - 1):
        return None
    return multiplier.bit_length() - 1 - shift


def _only(values: np.ndarray | None) -> int | None:
    return int(values[0]) if values is not None and len(values) == 1 else None
