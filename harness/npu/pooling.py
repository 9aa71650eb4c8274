"""POOL: maximum, average and sum over channels.

A maximum is over valid taps only; an average without padding is a sum of differences to the zero point, times the
reciprocal that the compiler put into OFM_SCALE; with padding, the hardware divides by the number of valid taps, to
nearest, ties away from zero (established, see the package's docstring).

The compiler also moves and transposes data with 1x1 average pools, one small operation per slice, so such a pool that
changes no value is executed as a copy.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.npu import output, windows
from harness.npu.featuremap import Memory
from harness.npu.operations import Pool
from harness.npu.registers import PoolMode
from harness.npu.scaling import Scale, divide_half_away, scale

Array = npt.NDArray[Any]


class PoolStep:
    """Executes one Pool."""

    def __init__(self, op: Pool) -> None:
        self.op = op
        self.run = self._copy if is_copy(op) else self._pool

    def _copy(self, memory: Memory) -> None:
        op = self.op
        source, target = op.ifm.plain(memory), op.ofm.plain(memory)
        if source is not None and target is not None:
            target[...] = source
        else:
            op.ofm.store(memory, op.ifm.load(memory).copy())

    def _pool(self, memory: Memory) -> None:
        op = self.op
        source = op.ifm.load(memory)
        if op.mode is PoolMode.REDUCE_SUM:
            values = source.sum(axis=2, dtype=np.int64, keepdims=True) - op.ifm.zero_point * op.ifm.depth
        elif op.mode is PoolMode.MAX:
            values = self._largest(source)
        else:
            values = self._sums(source)
        if op.hardware_divide:
            height, width = windows.input_size(op.kernel, op.ofm.height, op.ofm.width)
            values = divide_half_away(values, windows.valid_taps(op.kernel, height, width, op.ofm))
        else:
            values = scale(values, op.scale)
        op.ofm.store(memory, output.finish(values, op.ofm, op.activation, memory))

    def _largest(self, source: Array) -> Array:
        op, kernel = self.op, self.op.kernel
        source = windows.enlarge(source, op.upscale, kernel, op.ofm, op.ifm.zero_point)
        source = windows.pad(source, kernel, op.ifm.limits[0])
        taps = windows.view(source, kernel, op.ofm.height, op.ofm.width)
        columns = functools.reduce(np.maximum, (taps[:, :, :, x] for x in range(kernel.width)))
        largest = functools.reduce(np.maximum, (columns[:, :, y] for y in range(kernel.height)))
        return largest.astype(np.int64) - op.ifm.zero_point

    def _sums(self, source: Array) -> Array:
        op, kernel = self.op, self.op.kernel
        source = windows.enlarge(source, op.upscale, kernel, op.ofm, op.ifm.zero_point)
        source = windows.pad(source, kernel, op.ifm.zero_point)
        taps = windows.view(source, kernel, op.ofm.height, op.ofm.width)
        total = taps.sum(axis=(2, 3), dtype=np.int64)
        return total - op.ifm.zero_point * kernel.height * kernel.width


def is_copy(op: Pool) -> bool:
    """Whether the pool stores its input unchanged, whatever its values are."""
    return (
        op.mode is not PoolMode.REDUCE_SUM
        and op.kernel.is_point
        and op.upscale == 0
        and op.ifm.bits == op.ofm.bits == 8
        and op.ifm.signed == op.ofm.signed
        and op.ifm.zero_point == op.ofm.zero_point
        and op.activation.table is None
        and (op.activation.minimum, op.activation.maximum) == op.ofm.limits
        and (op.hardware_divide or _keeps_bytes(op.scale))
    )


@functools.lru_cache(maxsize=256)
def _keeps_bytes(by: Scale) -> bool:
    """Whether scaling leaves every difference of two bytes as it is."""
    values = np.arange(-255 - 255, 255 + 255 + 1, dtype=np.int64)
    return bool(np.array_equal(scale(values, by), values))
