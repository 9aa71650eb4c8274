"""The output stage: from scaled values to stored elements (zero point, clamp, look-up table, saturation).

Established with TOSA: the order of the steps; 8-bit tables (the entry as it is, by clamped value), 16-bit ones (512
words of slope and base). Established with TensorFlow Lite Micro: 32-bit outputs saturate and get neither zero point nor
clamp, unless there is a table of words in between, which the clamped int8 value indexes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, RegionMemory
from ethos_hil.harness.npu.isa.operations import INTERNAL, Activation, Convolution, Curve, MatMul
from ethos_hil.harness.npu.isa.stream import Fault

Array = npt.NDArray[Any]

SEGMENTS = 512  # in an interpolated table, each a word of slope and base


def table_bytes(index_bits: int, entry_bits: int) -> int:
    """Return the size of a look-up table: 256 entries for an 8-bit index, SEGMENTS words for a 16-bit one."""
    return SEGMENTS * 4 if index_bits == 16 else 256 * entry_bits // 8


def finish(values: Array, ofm: FeatureMap, activation: Activation, memory: RegionMemory) -> Array:
    """Return scaled whole numbers (int32, int64 or float64) as elements of the OFM's type; may overwrite `values`."""
    if activation.curve is not None:
        reached = apply_curve(values, activation.curve, _curve_table(activation, memory))
        return reached.clip(activation.minimum, activation.maximum)
    if ofm.zero_point and (activation.clamp or activation.wraps):
        values += ofm.zero_point
    if activation.wraps:
        return values.astype(np.int64, copy=False).astype(ofm.dtype)
    limits = (activation.minimum, activation.maximum) if activation.clamp else ofm.limits
    if activation.table is not None or ofm.bits < 8 * values.itemsize:
        values.clip(*limits, out=values)
    if activation.table is not None:
        return look_up(values, ofm, activation, memory)
    return values.astype(ofm.dtype)


def _curve_table(activation: Activation, memory: RegionMemory) -> Array:
    assert activation.curve is not None
    if activation.table is None:
        return curve_table(activation.curve)
    return memory[INTERNAL][activation.table : activation.table + table_bytes(16, 16)].view("<i2").reshape(-1, 2)


def check_accumulators(op: Convolution | MatMul, sums: Array) -> None:
    """Raise Fault if one of the sums (int64) does not fit the operation's accumulators."""
    least, most = int(sums.min()), int(sums.max())
    end = 1 << (op.accumulator_bits - 1)
    if least < -end or most >= end:
        met = least if least < -end else most
        message = f"a sum of {met} does not fit the accumulator, and what it wraps to is not established"
        raise Fault.of(op, FailureKind.UNSUPPORTED, "ACC_FORMAT", op.accumulator_bits, message)


def table(ofm: FeatureMap, activation: Activation, memory: RegionMemory) -> Array:
    """Return the entries for the clamped values activation.minimum to activation.maximum (8-bit indices only)."""
    assert activation.table is not None
    raw = memory[INTERNAL][activation.table : activation.table + table_bytes(8, ofm.bits)]
    entries = raw.view(ofm.dtype)
    first = 128 if activation.signed_index else 0
    return entries[activation.minimum + first : activation.maximum + first + 1]


def look_up(clamped: Array, ofm: FeatureMap, activation: Activation, memory: RegionMemory) -> Array:
    """Return table entries for clamped values: by value for 8-bit indices, interpolated for 16-bit ones."""
    if activation.index_bits == 8:
        return table(ofm, activation, memory).take((clamped - activation.minimum).astype(np.intp))
    assert activation.table is not None
    end = activation.table + table_bytes(16, ofm.bits)
    raw = memory[INTERNAL][activation.table : end].view("<i2").astype(np.int32)
    position = clamped.astype(np.int32) + 32768
    index = position >> 7
    base, rise = raw[0::2].take(index), raw[1::2].take(index)
    rise *= position & 127
    if ofm.bits == 32:
        return np.asarray((base << 7) + rise, dtype=ofm.dtype)
    rise += 64
    rise >>= 7
    rise += base
    return rise.clip(-32768, 32767).astype(ofm.dtype)


# The activation functions tanh and sigmoid, from values of 18 bits and more to int16.
#
# A value of 12288 is 1.0. Both functions interpolate one table of tanh: 512 words of base and rise, from -5.33 to 5.33.
# For sigmoid(x), which is (tanh(x / 2) + 1) / 2, a step of the table is twice as wide. Values beyond the table count as
# its ends. Ties are rounded up for values from 0 on, and down below 0.
#
# Ethos-U85 has the table in its look-up memory, where the stream puts it; Ethos-U55 and U65 have it built in.
# Established with TensorFlow Lite Micro, whose kernels every input of int16 agrees with, and by the tables that Vela
# 5.1 loads on Ethos-U85. That silicon has the same table built in is not established.

_STEP_BITS = {Curve.TANH: 8, Curve.SIGMOID: 9}  # of a value, within a step of the table
_HALF = 256  # steps from 0 to the end of the table
_STEPS_IN_ONE = 24  # of sigmoid's
# Where the table is one more than sigmoid rounded to nearest, by steps from 0.
_RAISED = (
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49,
    50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
)  # fmt: skip


def apply_curve(values: Array, curve: Curve, table: Array) -> Array:
    """Return tanh or sigmoid of scaled values.

    Args:
        values: whole numbers of any type and shape; 12288 is 1.0.
        curve: the function.
        table: (512, 2) int16: base and rise of each step.

    Returns:
        int16 of the same shape; 32768 would be 1.0.
    """
    bits = _STEP_BITS[curve]
    largest = (_HALF << bits) - 1
    limited = values.clip(-largest, largest).astype(np.int64)
    step = (limited >> bits) + _HALF
    rows = table.astype(np.int64)
    reached = (rows[:, 0].take(step) << bits) + rows[:, 1].take(step) * (limited & (1 << bits) - 1)
    if curve is Curve.SIGMOID:
        reached += 1 << (bits + 15)
        bits += 1
    reached += 1 << (bits - 1)
    reached -= limited < 0
    return (reached >> bits).clip(-32768, 32767).astype(np.int16)


@cache
def curve_table(curve: Curve) -> Array:
    """Return the table of a function, (512, 2) int16.

    The first rise differs: at its lower end tanh is -32767, and sigmoid is 1.
    """
    steps = np.arange(_HALF)
    levels = np.floor(65536 / (1 + np.exp(-steps / _STEPS_IN_ONE)) + 0.5).astype(np.int64)
    levels[list(_RAISED)] += 1
    right = levels - 32768
    base = np.concatenate([[-right[-1]], -right[:0:-1], right])
    rise = np.diff(base, append=base[-1])
    rise[0] = int(curve is Curve.SIGMOID)
    table = np.stack([base, rise], axis=1).astype(np.int16)
    table.setflags(write=False)
    return table
