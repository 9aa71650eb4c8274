"""POOL: maximum, minimum and its position, average, sums over windows and over channels, or scaling alone.

A maximum covers valid taps only. An average without padding is a sum of differences to the zero point times the
reciprocal that the compiler put into OFM_SCALE; with padding, the hardware divides by the number of valid taps, to
nearest, ties away from zero (established, see the package's docstring).

Vela splits a padded pool with a stride above 3 into operations of one tap each that share accumulators (Ethos-U85):
sums add up, and a maximum or minimum chooses. A tap that lies in the padding adds nothing (established).

The compiler also moves and transposes data with 1x1 average pools, one small operation per slice, so a pool that
changes no value is executed as a copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.compute import output, windows
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.npu.isa.operations import Pool
from ethos_hil.harness.npu.isa.registers import PoolMode
from ethos_hil.harness.npu.isa.scaling import EARLY_SHIFT, Rounding, Scale, divide_half_away, scale, scale_channels
from ethos_hil.harness.npu.isa.stream import Fault
from ethos_hil.harness.npu.weights import decompress

Array = npt.NDArray[Any]

_COMBINED = {PoolMode.SUM: np.add, PoolMode.MAX: np.maximum, PoolMode.MIN: np.minimum}
"""What becomes of a value and the one that the accumulators hold."""


class PoolStep:
    """Executes one Pool."""

    def __init__(self, op: Pool) -> None:
        self.op = op
        self.run = self._copying() if is_copy(op) else self._pool

    def _copying(self) -> Callable[[RegionMemory], None]:
        """Return what copies; a transposition may be a thousand of them."""
        op = self.op
        source, target = op.ifm.viewer(), op.ofm.viewer()
        if source is None or target is None:
            return lambda memory: op.ofm.store(memory, op.ifm.load(memory).copy())

        def copy(memory: RegionMemory) -> None:
            target(memory)[...] = source(memory)

        return copy

    def _pool(self, memory: RegionMemory) -> None:
        op = self.op
        values = self._reduce(op.ifm.load(memory))
        if op.hardware_divide:
            height, width = windows.input_size(op.kernel, op.ofm.height, op.ofm.width)
            values = divide_half_away(values, windows.valid_taps(op.kernel, height, width, op.ofm))
        if op.start is not None:
            values = _COMBINED[op.mode](values, op.start.load(memory))
        if op.ofm.is_accumulators:
            op.ofm.store(memory, values)
            return
        if op.mode is not PoolMode.ARGMAX_X:  # OFM_SCALE takes the position from above the value
            values = self._scale(values, memory)
        op.ofm.store(memory, output.finish(values, op.ofm, op.activation, memory))

    def _reduce(self, source: Array) -> Array:
        """Return the mode's result for each window, int64."""
        op, kernel, zero = self.op, self.op.kernel, self.op.ifm.zero_point
        if op.mode is PoolMode.NONE:
            return source.astype(np.int64) - zero
        if op.mode is PoolMode.REDUCE_SUM:
            return source.sum(axis=2, dtype=np.int64, keepdims=True) - zero * op.ifm.depth
        edge = {PoolMode.MAX: op.ifm.limits[0], PoolMode.MIN: op.ifm.limits[1]}.get(op.mode, zero)
        source = windows.enlarge(source, op.upscale, kernel, op.ofm, zero)
        source = windows.pad(source, kernel, edge)
        if op.mode in (PoolMode.MAX, PoolMode.MIN):
            choose = np.maximum if op.mode is PoolMode.MAX else np.minimum
            # Along rows first, then along columns: no value of a map is kept more than once.
            across = _positions_of_tap(op.ofm.width, kernel.stride_x)
            down = _positions_of_tap(op.ofm.height, kernel.stride_y)
            columns = functools.reduce(choose, (source[:, across(x)] for x in range(kernel.width)))
            chosen = functools.reduce(choose, (columns[down(y)] for y in range(kernel.height)))
            return chosen.astype(np.int64) - zero
        taps = windows.view(source, kernel, op.ofm.height, op.ofm.width)
        if op.mode is PoolMode.ARGMAX_X:
            return np.asarray(taps[:, :, 0].argmax(axis=2), dtype=np.int64)
        total = taps.sum(axis=(2, 3), dtype=np.int64)
        return total - zero * kernel.height * kernel.width

    def _scale(self, values: Array, memory: RegionMemory) -> Array:
        op = self.op
        if op.channel_scales is None:
            return scale(values, op.scale)
        buffers = [memory[at.region][at.base : at.base + at.length] for at in op.channel_scales.streams]
        try:
            bias, multiplier, shift = decompress.decode_scales(buffers, op.ofm.depth, op.channel_scales.layout)
        except decompress.WeightError as error:
            at = op.channel_scales.streams[0]
            raise Fault.of(op, FailureKind.PARSE, "SCALE_LENGTH", at.length, str(error)) from error
        return scale_channels(values + bias, multiplier, shift, op.scale.rounding)


def _positions_of_tap(count: int, stride: int) -> Callable[[int], slice]:
    """Return a function from a tap to the input positions that it reads, one for each of `count` outputs."""
    return lambda tap: slice(tap, tap + (count - 1) * stride + 1, stride)


def is_copy(op: Pool) -> bool:
    """Return whether the pool stores every input unchanged."""
    ifm, ofm, activation = op.ifm, op.ofm, op.activation
    if op.start is not None:
        return False
    if (ifm.bits, ifm.signed) != (ofm.bits, ofm.signed) or activation.wraps:
        return False
    if activation.table is not None or activation.curve is not None:
        return False
    # An output without clamp gets no zero point either, see `output.finish`.
    kept = ifm.zero_point == (ofm.zero_point if activation.clamp else 0)
    return (
        kept
        and op.mode not in (PoolMode.REDUCE_SUM, PoolMode.ARGMAX_X)
        and op.channel_scales is None
        and op.kernel.is_point
        and op.upscale == 0
        and (activation.minimum, activation.maximum) == ofm.limits
        and keeps_values(op.scale, 1 << (ifm.bits + 1))
    )


def keeps_values(by: Scale, largest: int) -> bool:
    """Return whether scaling leaves every value up to the magnitude `largest` as it is.

    With multiplier 2**shift + e, the product is value * 2**shift + value * e. Rounding to nearest gives the value back
    as long as value * e stays below half of 2**shift; other roundings only if e is 0.
    """
    beyond = abs(by.multiplier - (1 << by.shift))
    to_nearest = by.rounding is Rounding.NATURAL or (
        by.rounding is Rounding.DOUBLE and by.shift <= EARLY_SHIFT - by.early_bits
    )
    return beyond == 0 or (to_nearest and 2 * largest * beyond < 1 << by.shift)
