"""The output stage: from scaled values to stored elements (zero point, clamp, look-up table, saturation).

Established with TOSA: the order of the steps; 8-bit tables (the entry as it is, by clamped value), 16-bit ones (512
words of slope and base). Established with TensorFlow Lite Micro: 32-bit outputs saturate and get neither zero point nor
clamp, unless there is a table of words in between, which the clamped int8 value indexes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.compute import curves
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, RegionMemory
from ethos_hil.harness.npu.isa.operations import INTERNAL, Activation, Convolution, MatMul

Array = npt.NDArray[Any]

SEGMENTS = 512  # in an interpolated table, each a word of slope and base


def table_bytes(index_bits: int, entry_bits: int) -> int:
    """Return the size of a look-up table: 256 entries for an 8-bit index, SEGMENTS words for a 16-bit one."""
    return SEGMENTS * 4 if index_bits == 16 else 256 * entry_bits // 8


def finish(values: Array, ofm: FeatureMap, activation: Activation, memory: RegionMemory) -> Array:
    """Return scaled whole numbers (int32, int64 or float64) as elements of the OFM's type; may overwrite `values`."""
    if activation.curve is not None:
        reached = curves.apply(values, activation.curve, _curve_table(activation, memory))
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
        return curves.built_in(activation.curve)
    return memory[INTERNAL][activation.table : activation.table + table_bytes(16, 16)].view("<i2").reshape(-1, 2)


def check_accumulators(op: Convolution | MatMul, sums: Array) -> None:
    """Raise Fault if one of the sums (int64) does not fit the operation's accumulators."""
    worst = int(np.abs(sums).max())
    if worst >= 1 << (op.accumulator_bits - 1):
        raise Fault(
            FailureKind.UNSUPPORTED,
            op.offset,
            op.name,
            "ACC_FORMAT",
            op.accumulator_bits,
            f"a sum of {worst} does not fit the accumulator, and what it wraps to is not established",
        )


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
