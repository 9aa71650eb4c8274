"""From sums of products to stored elements: bias, scale per channel, zero point, clamp, look-up.

Scaling is exact in float64, which is faster than 64-bit integers: (sum + bias) * (multiplier / 2**shift) is rounded
only when it exceeds 2**53 / 2**shift, and Requantiser takes this way only if that is beyond the clamp range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.harness.npu.compute import output
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import Convolution
from ethos_hil.harness.npu.isa.scaling import FLOAT64_EXACT, Rounding, scale_channels

Array = npt.NDArray[Any]

INT16_MAX = (1 << 15) - 1
PERIOD = 512  # values per channel are repeated up to so many: numpy's inner loops are short where channels are few


@dataclass(frozen=True)
class Requantiser:
    """Sums of products to stored elements, for one set of weights and operations that differ in their maps' places.

    Attributes:
        bias, multiplier, shift: per channel, int64; the bias includes the zero point's share.
        factor: per channel float64, some times over (PERIOD), or None where scaling in float64 is not exact.
        addend: added behind the factor: rounding, zero point, lower end of the clamp range, and the bias if it may.
        bias_first: the bias as float64, as many times, where it must be added before multiplying.
        narrow: whether what is then clamped fits 16 bits whatever the input is.
        overflow: whether sums may leave the accumulator, so that they must be looked at.
    """

    bias: Array
    multiplier: Array
    shift: Array
    factor: Array | None
    addend: Array | float
    bias_first: Array | None
    narrow: bool
    overflow: bool

    @classmethod
    def make(cls, op: Convolution, bias: Array, multiplier: Array, shift: Array, bound: Array) -> Requantiser:
        """`bound`: largest magnitude of each channel's sum of products, before the bias."""
        largest = bound + np.abs(bias)
        overflow = op.start is not None or int(largest.max()) >= 1 << (op.accumulator_bits - 1)
        activation = op.activation
        natural = op.scale.rounding is Rounding.NATURAL or (
            op.scale.rounding is Rounding.DOUBLE and int(shift.max()) <= 31
        )
        reach = 2 * (abs(op.ofm.zero_point) + max(abs(activation.minimum), abs(activation.maximum)) + 2)
        exact = natural and activation.clamp and not overflow and int(shift.max()) + reach.bit_length() <= 53
        if not exact or int(shift.min()) == 0:
            return cls(bias, multiplier, shift, None, 0.0, None, False, overflow)
        factor = multiplier * np.exp2(-shift.astype(np.float64))
        addend = 0.5 + op.ofm.zero_point - activation.minimum
        narrow = bool((largest * factor).max() + abs(addend) < INT16_MAX)
        times = max(1, PERIOD // bias.size)
        products = largest.astype(np.float64) * multiplier + np.ldexp(float(reach), shift)
        if products.max() < FLOAT64_EXACT - 8:  # each is off by less than 8 where that matters
            behind = np.tile(bias * factor + addend, times)
            return cls(bias, multiplier, shift, np.tile(factor, times), behind, None, narrow, overflow)
        first = np.tile(bias.astype(np.float64), times)
        return cls(bias, multiplier, shift, np.tile(factor, times), addend, first, narrow, overflow)

    def apply(self, op: Convolution, sums: Array, out: Array, memory: RegionMemory) -> None:
        """Fills `out` (..., channels) with the elements for `sums` (contiguous, as long), integers in floating point.

        Raises Fault.
        """
        activation = op.activation
        if self.factor is None:
            out[...] = self.finish(op, sums.reshape(out.shape).astype(np.int64), memory)
            return
        scaled = sums.reshape(-1).astype(np.float64)
        if self.bias_first is not None:
            _each(np.add, scaled, self.bias_first)
        _each(np.multiply, scaled, self.factor)
        if isinstance(self.addend, float):
            scaled += self.addend
        else:
            _each(np.add, scaled, self.addend)
        # What is below zero may be rounded either way by a conversion, as it is clamped to zero.
        clamped: Array = scaled.astype(np.int16) if self.narrow else scaled
        clamped.clip(0, activation.maximum - activation.minimum, out=clamped)
        if activation.table is not None and activation.index_bits == 8:
            entries = output.table(op.ofm, activation, memory)
            out[...] = entries.take(clamped.astype(np.intp)).reshape(out.shape)
        elif op.ofm.bits == 8:
            stored = clamped.astype(np.uint8).reshape(out.shape)
            np.add(stored, np.uint8(activation.minimum & 0xFF), out=out.view(np.uint8))
        else:
            values = clamped.astype(np.int32).reshape(out.shape) + activation.minimum
            if activation.table is not None:
                values = output.look_up(values, op.ofm, activation, memory)
            out[...] = values

    def finish(self, op: Convolution, sums: Array, memory: RegionMemory) -> Array:
        """The elements for `sums` (..., channels), int64."""
        accumulators = sums + self.bias
        if self.overflow:
            output.check_accumulators(op, accumulators)
        scaled = scale_channels(accumulators, self.multiplier, self.shift, op.scale.rounding)
        return output.finish(scaled, op.ofm, op.activation, memory)


class Bare:
    """In place of a Requantiser: keeps the sums."""

    def apply(self, op: Convolution, sums: Array, out: Array, memory: RegionMemory) -> None:
        """Fills `out` (..., channels), int64, with `sums`."""
        out[...] = sums.reshape(out.shape)


def _each(combine: np.ufunc, values: Array, period: Array) -> None:
    """Combines `values` (flat), in place, with numbers that repeat."""
    whole = values.size // period.size * period.size
    if whole:
        body = values[:whole].reshape(-1, period.size)
        combine(body, period, out=body)
    if whole < values.size:
        rest = values[whole:]
        combine(rest, period[: rest.size], out=rest)
