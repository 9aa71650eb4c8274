"""RESIZE of Ethos-U85: nearest and bilinear.

OFM position o reads position p = o * step + offset, in units of 1 / scale of an IFM position. Nearest takes position
floor(p / scale), plus one where the remainder is at least half. Bilinear weighs the two positions next to p by the
remainder, in both directions, and gives scale.y * scale.x times the mean. Positions outside of the map take the value
at its edge. Before OFM_SCALE the result is shifted left by 16.

Established with TOSA.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.harness.npu.compute import output
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import Resize, ResizeAxis, ResizeMode
from ethos_hil.harness.npu.isa.scaling import scale

Array = npt.NDArray[Any]

FRACTION_BITS = 16


class ResizeStep:
    """Executes one Resize."""

    def __init__(self, op: Resize) -> None:
        self.op = op

    def run(self, memory: RegionMemory) -> None:
        """Read the IFM and write the OFM."""
        op = self.op
        values = op.ifm.load(memory).astype(np.int64) - op.ifm.zero_point
        pick = nearest if op.mode is ResizeMode.NEAREST else bilinear
        values = pick(values, op.y, op.ofm.height, 0)
        values = pick(values, op.x, op.ofm.width, 1)
        values = scale(values << FRACTION_BITS, op.scale)
        op.ofm.store(memory, output.finish(values, op.ofm, op.activation, memory))


def nearest(values: Array, axis: ResizeAxis, count: int, along: int) -> Array:
    """Return `count` positions of `values` along the axis `along`."""
    whole, rest = np.divmod(np.arange(count) * axis.step + axis.offset, axis.scale)
    return np.take(values, np.clip(whole + (2 * rest >= axis.scale), 0, values.shape[along] - 1), along)


def bilinear(values: Array, axis: ResizeAxis, count: int, along: int) -> Array:
    """Return `count` interpolated positions of `values` along the axis `along`, times the axis' scale."""
    whole, rest = np.divmod(np.arange(count) * axis.step + axis.offset, axis.scale)
    last = values.shape[along] - 1
    weight = rest.reshape((-1, 1, 1) if along == 0 else (1, -1, 1))
    before, after = (np.take(values, np.clip(at, 0, last), along) for at in (whole, whole + 1))
    return np.asarray(before * (axis.scale - weight) + after * weight)
