"""Scaling of accumulators: multiply, round, shift. Rounding is defined here and nowhere else.

NATURAL, AWAY and FLOOR are established with TOSA, DOUBLE with TensorFlow Lite Micro; TRUNCATE is Vela's definition. All
arithmetic is exact; products beyond 63 bits take a slower path, in two halves.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass

Int64s = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
FLOAT64_EXACT = 1 << 53  # whole numbers below are exact in float64, and so are their products with powers of two
INT64_MAX = (1 << 63) - 1
EARLY_SHIFT = 31  # beyond this shift DOUBLE rounds twice
WORD = 32
WORD_MASK = (1 << WORD) - 1


class Rounding(IntEnum):
    """How a scale rounds the bits that it shifts out."""

    DOUBLE = 0  # "TFL": round at 31 bits away from zero, then half up
    TRUNCATE = 1  # toward zero
    NATURAL = 2  # half up
    AWAY = 3  # half away from zero
    FLOOR = 4  # down


@dataclass(frozen=True)
class Scale:
    """value * multiplier / 2**shift, rounded.

    Attributes:
        multiplier: unsigned, up to 32 bits.
        shift: 0 to 63.
        rounding: how the result is rounded.
        early_bits: left shift that the operand already has (20 or 15 for scaled ADD/SUB operands); it lowers the point
            at which DOUBLE rounds for the first time from 2**30 to 2**(30 - early_bits).
    """

    multiplier: int = 1
    shift: int = 0
    rounding: Rounding = Rounding.NATURAL
    early_bits: int = 0

    @property
    def is_one(self) -> bool:
        """Whether scaling leaves every value as it is."""
        return self.multiplier == 1 and self.shift == 0

    def is_reciprocal_of(self, count: int) -> bool:
        """Return whether it is 1/count, rounded up in its last bits as compilers do."""
        return 0 <= self.multiplier * count - (1 << self.shift) <= min(4 * count, 1 << self.shift >> 16)


ONE = Scale()


def scale(values: Array, by: Scale, largest: int | None = None) -> Array:
    """Return `values` (any shape) scaled by one Scale, as int64, or as float64 if they are (see `exact_in_floats`).

    Float64 values may be overwritten. `largest` bounds the magnitudes; who knows it spares a search.
    """
    if by.is_one:
        return values
    if values.dtype == np.float64:
        return _scale_floats(values, by)
    return scale_channels(values, by.multiplier, by.shift, by.rounding, by.early_bits, largest)


def exact_in_floats(largest: int, by: Scale) -> bool:
    """Return whether float64 can scale whole numbers up to the magnitude `largest` exactly.

    It can when every step's result is an integer below 2**53 times a power of two.
    """
    return by.is_one or largest * by.multiplier + (1 << by.shift) + (1 << 31) < FLOAT64_EXACT


def largest_scaled(largest: int, by: Scale) -> int:
    """Return a bound on the magnitude of scaled numbers; `largest` bounds the numbers before scaling."""
    return largest if by.is_one else (largest * by.multiplier + (1 << 31) >> by.shift) + 2


def _scale_floats(values: Array, by: Scale) -> Array:
    values *= math.ldexp(by.multiplier, -by.shift)
    if not by.shift:
        return values
    if by.rounding is Rounding.TRUNCATE:
        return np.trunc(values, out=values)
    half = 0.5
    threshold = EARLY_SHIFT - by.early_bits
    if by.rounding is Rounding.AWAY:
        values += np.copysign(half, values)
        return np.trunc(values, out=values)
    if by.rounding is Rounding.DOUBLE and by.shift > threshold:
        early = math.ldexp(1.0, threshold - 1 - by.shift)
        values += np.where(values < 0, half - early, half + early)
    elif by.rounding is not Rounding.FLOOR:
        values += half
    return np.floor(values, out=values)


def scale_channels(
    values: Int64s,
    multiplier: int | Int64s,
    shift: int | Int64s,
    rounding: Rounding,
    early_bits: int = 0,
    largest: int | None = None,
) -> Int64s:
    """Return `values` scaled by multipliers and shifts that broadcast against them; int64.

    Shifts must be in 0..63 and multipliers in 0..2**32-1. `largest` is as for `scale`.
    """
    if values.size == 0:
        return values
    top_shift = int(np.max(shift))
    half = 1 << (top_shift - 1) if top_shift else 0
    most = (INT64_MAX - half - (1 << 30)) // max(1, int(np.max(multiplier)))  # whose product does not overflow
    if (largest is None or largest > most) and max(abs(int(values.min())), abs(int(values.max()))) > most:
        return _round_wide(values, np.asarray(multiplier, np.int64), np.asarray(shift, np.int64), rounding, early_bits)
    return (values * multiplier + _rounding_addend(values, shift, rounding, early_bits)) >> shift


def _round_wide(values: Int64s, multiplier: Int64s, shift: Int64s, rounding: Rounding, early_bits: int) -> Int64s:
    """Return what `scale_channels` does, of products of up to 96 bits: high * 2**32 + low. It saturates to 64 bits."""
    low = (values & WORD_MASK).astype(np.uint64) * multiplier.astype(np.uint64)
    high = (values >> WORD) * multiplier + (low >> np.uint64(WORD)).astype(np.int64)
    addend = _rounding_addend(values, shift, rounding, early_bits)
    low_sum = (low & np.uint64(WORD_MASK)).astype(np.int64) + (addend & WORD_MASK)
    high += (addend >> WORD) + (low_sum >> WORD)
    left = np.maximum(WORD - shift, 0)  # where high goes; it is cut where it would leave 64 bits
    limit = INT64_MAX >> left
    rest = np.where(shift < WORD, (low_sum & WORD_MASK) >> np.minimum(shift, WORD), 0)
    result = (np.clip(high, -limit - 1, limit) >> np.maximum(shift - WORD, 0) << left) + rest
    return np.where(high > limit, INT64_MAX, np.where(high < -limit - 1, -INT64_MAX - 1, result))


def _rounding_addend(values: Int64s, shift: int | Int64s, rounding: Rounding, early_bits: int) -> Int64s:
    """Return what to add to the product with `values` so that an arithmetic shift to the right rounds it."""
    shift = np.asarray(shift, np.int64)
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
    if rounding is Rounding.NATURAL:
        return half
    if rounding is Rounding.FLOOR:
        return np.zeros_like(half)
    negative = values < 0  # as the product is: multipliers are not
    if rounding is Rounding.TRUNCATE:
        return np.where(negative & (shift > 0), 2 * (half - 1) + 1, 0)
    if rounding is Rounding.AWAY:
        return half - (negative & (shift > 0))
    threshold = EARLY_SHIFT - early_bits  # of DOUBLE
    early = np.where(shift > threshold, np.int64(1) << (threshold - 1), 0)
    return half + np.where(negative, -early, early)


def divide_half_away(sums: Int64s, counts: Int64s | int) -> Int64s:
    """Return sums / counts to nearest, ties away from zero (the hardware's mean)."""
    magnitude = (2 * np.abs(sums) + counts) // (2 * np.asarray(counts, dtype=np.int64))
    return np.where(sums < 0, -magnitude, magnitude)
