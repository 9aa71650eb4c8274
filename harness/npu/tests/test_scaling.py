"""Protects the arithmetic of products beyond 63 bits, which only operations on 32-bit values need."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.harness.npu.compute.pooling import keeps_values
from ethos_hil.harness.npu.isa.scaling import INT64_MAX, Rounding, Scale, scale, scale_channels
from ethos_hil.harness.npu.tests.test_rounding import exact

ENDS = (-INT64_MAX - 1, -INT64_MAX, -(1 << 62), -(1 << 32), -1, 0, 1, (1 << 32) - 1, 1 << 62, INT64_MAX)


def saturated(value: int, by: Scale) -> int:
    return max(-INT64_MAX - 1, min(INT64_MAX, exact(value, by)))


@pytest.mark.parametrize("early_bits", [0, 20])
@pytest.mark.parametrize("rounding", list(Rounding), ids=lambda rounding: rounding.name)
def test_wide_products_are_exact(rounding: Rounding, early_bits: int) -> None:
    rng = np.random.default_rng(early_bits)
    for shift in (0, 1, 17, 31, 32, 33, 48, 62, 63):
        for multiplier in (0, 1, 1 << 31, (1 << 32) - 1, int(rng.integers(1 << 32))):
            by = Scale(multiplier, shift, rounding, early_bits)
            drawn = rng.integers(-(1 << 63), INT64_MAX, 12, endpoint=True) >> rng.integers(0, 40, 12)
            ties = [((2 * k + 1) << shift) // (2 * max(multiplier, 1)) for k in (-(1 << 30), -2, 1, 1 << 30)]
            values = [*ENDS, *map(int, drawn), *(v for v in ties if abs(v) <= INT64_MAX)]
            assert scale(np.array(values, np.int64), by).tolist() == [saturated(v, by) for v in values]


@pytest.mark.parametrize("rounding", list(Rounding), ids=lambda rounding: rounding.name)
def test_wide_products_are_exact_per_channel(rounding: Rounding) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-(1 << 63), INT64_MAX, (20, 64), endpoint=True) >> rng.integers(0, 60, (20, 64))
    multipliers, shifts = rng.integers(0, 1 << 32, 64), np.arange(64)
    result = scale_channels(values, multipliers, shifts, rounding)
    for channel, column in enumerate(values.T.tolist()):
        by = Scale(int(multipliers[channel]), channel, rounding)
        assert result[:, channel].tolist() == [saturated(v, by) for v in column]


@pytest.mark.parametrize("rounding", list(Rounding), ids=lambda rounding: rounding.name)
def test_keeps_values_agrees_with_scaling_every_value(rounding: Rounding) -> None:
    """Checked against scaling every value of 9 bits. The rule may only be too careful where half-way values decide."""
    values = np.arange(-512, 513, dtype=np.int64)
    kept = set()
    for shift in (0, 1, 8, 9, 10, 11, 30, 31, 40):
        for beyond in (-3, -1, 0, 1, 3, 1 << 19, 1 << 20, 1 << 21):
            if (1 << shift) + beyond <= 0:
                continue
            by = Scale((1 << shift) + beyond, shift, rounding)
            is_kept = bool(np.array_equal(scale(values, by), values))
            if keeps_values(by, 512):
                assert is_kept, by
                kept.add(beyond)
    assert 0 in kept
    assert (len(kept) > 3) == (rounding in (Rounding.NATURAL, Rounding.DOUBLE))
