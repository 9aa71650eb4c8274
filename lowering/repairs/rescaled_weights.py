"""Weights that a RESCALE makes of a constant.

Vela takes them for weights that are computed. It refuses the convolution for an Ethos-U55 or U65, and a transposed one
for an Ethos-U85, too. Of others it makes a product of maps for each tap, and copies of the weights before that: 167
operations instead of one for 16 channels and a kernel of 3 x 3. All channels get the first one's scale (as in
[vela-input-weights](vela-input-weights.md)). Upstream's passes leave such a RESCALE in the branches of `torch.cond` and
in the bodies of loops, where the weights have been quantised on their way in and are quantised again.

## Repair

The values are computed while the model is lowered.
"""

from __future__ import annotations

import numpy as np
from tosa.RoundingMode import RoundingMode

from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.input_weights import CONVOLUTIONS, MOVED

_DOUBLED_FROM = 32
"""The smallest shift of which DOUBLE_ROUND rounds twice."""


def fold_weights(block: DraftBlock, family: Family) -> list[DraftOperator]:
    """Make a constant of each RESCALE of a constant that weights of a convolution come from."""
    repaired = []
    for operator in [operator for operator in block.operators if operator.op in CONVOLUTIONS]:
        writer = block.producer_behind(operator.inputs[1], MOVED)
        values = _values(block, writer.outputs[0]) if writer is not None and writer.op == "RESCALE" else None
        if writer is not None and values is not None:
            block.fold(writer, values)
            repaired.append(writer)
    return repaired


def _values(block: DraftBlock, name: str) -> np.ndarray | None:
    """Return what operators make of constants alone; None of anything else."""
    writer = block.producer(name)
    if writer is None or writer.is_constant:
        return block.constant(name)
    values = _values(block, writer.inputs[0]) if writer.op in ("RESCALE", *MOVED) else None
    if values is None or writer.op == "IDENTITY":
        return values
    if writer.op == "RESHAPE":
        return values.reshape(block.tensors[name].shape)
    if writer.op == "TRANSPOSE":
        return values.transpose(writer.old_attribute.PermsAsNumpy())
    return _rescaled(block, writer, values)


def _rescaled(block: DraftBlock, rescale: DraftOperator, values: np.ndarray) -> np.ndarray | None:
    """Return the result of a RESCALE as TOSA 1.0 defines it (`apply_scale_32`); None where it does not, and of unsigned
    elements.
    """
    scales = [block.constant(name) for name in rescale.inputs[1:]]
    bits = {"INT8": 8, "INT16": 16}.get(block.tensors[rescale.outputs[0]].dtype)
    attribute, rounding = rescale.old_attribute, rescale.old_attribute.RoundingMode()
    exact = rounding in (RoundingMode.SINGLE_ROUND, RoundingMode.DOUBLE_ROUND) and attribute.Scale32()
    if bits is None or not exact or attribute.InputUnsigned() or attribute.OutputUnsigned():
        return None
    multiplier, shift, zero_in, zero_out = (None if part is None else part.astype(np.int64) for part in scales)
    if multiplier is None or shift is None or zero_in is None or zero_out is None:
        return None
    centred = values - zero_in
    half = np.int64(1) << shift - 1
    if (shift < 2).any() or (centred >= half).any() or (centred < -half).any():
        return None
    added = np.broadcast_to(half, centred.shape)
    if rounding == RoundingMode.DOUBLE_ROUND:
        early = np.where(centred >= 0, 1 << 30, -(1 << 30))
        added = added + np.where(shift >= _DOUBLED_FROM, early, 0)
    scaled = (centred * multiplier + added >> shift) + zero_out
    most = (1 << bits - 1) - 1
    return scaled.clip(-most - 1, most).astype(f"i{bits // 8}")


DEFECT = VelaDefect(
    id="vela-rescaled-weights",
    effect="takes weights that a RESCALE makes of a constant for computed ones, which it refuses, or multiplies tap by "
    "tap with the first channel's scale",
    remedy="lower without --as-upstream",
    repair=fold_weights,
)
