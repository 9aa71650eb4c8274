"""Requantisation: from sums of products to stored elements (bias, scale per channel, zero point, clamp, look-up).

Float64 is faster than 64-bit integers. (sum + bias) * (multiplier / 2**shift) loses bits only when it exceeds 2**53 /
2**shift, and Requantiser uses float64 only where that lies beyond the clamp range, so the result is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
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
PERIOD = 512  # per-channel values are repeated up to this length: few channels would make short inner loops in numpy


@dataclass(frozen=True)
class Requantiser:
    """The step from sums of products to stored elements, for one set of weights.

    Operations that differ only in where their maps lie share one.

    Attributes:
        bias, multiplier, shift: per channel, int64; the bias includes the zero point's share.
        factor: multiplier / 2**shift per channel, float64, repeated (PERIOD), or None where float64 is not exact.
        addend: added after the factor: rounding, zero point, what moves the lower end of the clamp range to `low`, and
            the bias if that is exact.
        bias_first: the bias as float64, repeated as often, where it must be added before multiplying.
        low: where the clamp range starts, not below zero; the low byte of what is clamped is the element, if that has 8
            bits and comes from no table.
        narrow: whether the value to clamp fits 16 bits for every input.
        overflow: whether sums may exceed the accumulator, so that they must be checked.
    """

    bias: Array
    multiplier: Array
    shift: Array
    factor: Array | None
    addend: Array | float
    bias_first: Array | None
    low: int
    narrow: bool
    overflow: bool

    @classmethod
    def make(cls, op: Convolution, bias: Array, multiplier: Array, shift: Array, bound: Array) -> Requantiser:
        """Return the requantiser of an operation.

        Args:
            op: the convolution.
            bias, multiplier, shift: per channel, int64.
            bound: largest magnitude of each channel's sum of products, before the bias.
        """
        largest = bound + np.abs(bias)
        overflow = op.start is not None or int(largest.max()) >= 1 << (op.accumulator_bits - 1)
        activation = op.activation
        natural = op.scale.rounding is Rounding.NATURAL or (
            op.scale.rounding is Rounding.DOUBLE and int(shift.max()) <= 31
        )
        low = activation.minimum & 0xFF if op.ofm.bits == 8 and activation.table is None else 0
        reach = 2 * (abs(op.ofm.zero_point) + max(abs(activation.minimum), abs(activation.maximum)) + low + 2)
        exact = natural and activation.clamp and not overflow and int(shift.max()) + reach.bit_length() <= 53
        if not exact or int(shift.min()) == 0:
            return cls(bias, multiplier, shift, None, 0.0, None, 0, False, overflow)
        factor = multiplier * np.exp2(-shift.astype(np.float64))
        addend = 0.5 + op.ofm.zero_point - activation.minimum + low
        narrow = bool((largest * factor).max() + abs(addend) < INT16_MAX)
        times = max(1, PERIOD // bias.size)
        products = largest.astype(np.float64) * multiplier + np.ldexp(float(reach), shift)
        if products.max() < FLOAT64_EXACT - 8:  # each is off by less than 8 within the clamp range
            behind = np.tile(bias * factor + addend, times)
            return cls(bias, multiplier, shift, np.tile(factor, times), behind, None, low, narrow, overflow)
        first = np.tile(bias.astype(np.float64), times)
        return cls(bias, multiplier, shift, np.tile(factor, times), addend, first, low, narrow, overflow)

    def apply(self, op: Convolution, sums: Array, out: Array, memory: RegionMemory) -> None:
        """Fill `out` (..., channels) with the elements for `sums` (contiguous, same size; whole numbers, floating
        point).

        Raises Fault.
        """
        activation = op.activation
        if self.factor is None:
            out[...] = self.finish(op, sums.reshape(out.shape).astype(np.int64), memory)
            return
        scaled = sums.reshape(-1).astype(np.float64)
        for part, count in _by_period(scaled, self.factor.size):
            if self.bias_first is not None:
                part += self.bias_first[:count]
            part *= self.factor[:count]
            part += self.addend if isinstance(self.addend, float) else self.addend[:count]
        # The conversion may round values below zero either way: they are clamped to zero or above.
        clamped: Array = scaled.astype(np.int16) if self.narrow else scaled
        clamped.clip(self.low, self.low + activation.maximum - activation.minimum, out=clamped)
        if activation.table is not None and activation.index_bits == 8:
            entries = output.table(op.ofm, activation, memory)
            out[...] = entries.take(clamped.astype(np.intp)).reshape(out.shape)
        elif op.ofm.bits == 8:
            whole = clamped.astype(np.int16, copy=False).reshape(out.shape)
            np.copyto(out.view(np.uint8), whole, casting="unsafe")
        else:
            values = clamped.astype(np.int32).reshape(out.shape) + activation.minimum
            if activation.table is not None:
                values = output.look_up(values, op.ofm, activation, memory)
            out[...] = values

    def finish(self, op: Convolution, sums: Array, memory: RegionMemory) -> Array:
        """Return the elements for `sums` (..., channels), int64. Raises Fault."""
        accumulators = sums + self.bias
        if self.overflow:
            output.check_accumulators(op, accumulators)
        scaled = scale_channels(accumulators, self.multiplier, self.shift, op.scale.rounding)
        return output.finish(scaled, op.ofm, op.activation, memory)


class KeepSums:
    """A stand-in for a Requantiser that keeps the sums."""

    def apply(self, op: Convolution, sums: Array, out: Array, memory: RegionMemory) -> None:
        """Copy `sums` into `out` (..., channels), int64."""
        out[...] = sums.reshape(out.shape)


def _by_period(values: Array, period: int) -> Iterator[tuple[Array, int]]:
    """Yield `values` (flat) as rows of `period` numbers, then the rest, each with its length in numbers."""
    whole = values.size // period * period
    if whole:
        yield values[:whole].reshape(-1, period), period
    if whole < values.size:
        yield values[whole:], values.size - whole
