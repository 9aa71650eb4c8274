"""Protects scaling in floating point: it is used only where it equals scaling in integers, and there it does."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.harness.npu.isa.scaling import Rounding, Scale, exact_in_floats, largest_scaled, scale


def scales(rounding: Rounding) -> list[Scale]:
    """Multipliers of all sizes with all shifts, and operands' early shifts."""
    rng = np.random.default_rng(rounding)
    multipliers = [1, 2, 3, (1 << 31) - 1, (1 << 32) - 1, *map(int, rng.integers(1 << 30, 1 << 31, 5))]
    return [Scale(m, shift, rounding, early) for m in multipliers for shift in range(64) for early in (0, 15, 20)]


def values_around_ties(by: Scale, largest: int) -> np.ndarray:
    """Return the extremes, zero, and values that scale to next to half-way between two results."""
    halves = (2 * np.arange(-40, 41, dtype=np.float64) + 1) * 2.0 ** (by.shift - 1) / by.multiplier
    near = np.concatenate([np.floor(halves), np.ceil(halves)])
    near = near[np.abs(near) <= largest]
    edges = [-largest, 1 - largest, -1, 0, 1, largest - 1, largest]
    return np.unique(np.concatenate([near, np.array(edges, np.float64)])).astype(np.int64)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_floats_equal_integers(rounding: Rounding) -> None:
    tried = 0
    for by in scales(rounding):
        room = (1 << 53) - (1 << by.shift) - (1 << 31) - 1
        largest = min(room // by.multiplier, (1 << 32) - 1)
        if largest < 1 or not exact_in_floats(largest, by):
            continue
        values = values_around_ties(by, largest)
        exact = scale(values, by)
        assert np.array_equal(scale(values.astype(np.float64), by), exact), by
        assert int(np.abs(exact).max()) <= largest_scaled(largest, by), by
        tried += 1
    assert tried > 1000


def test_floats_are_refused_where_they_would_round() -> None:
    """The value is one above the limit: the sum before the shift is odd and beyond 2**53."""
    by = Scale((1 << 31) - 1, 31, Rounding.NATURAL)
    largest = (1 << 53) // by.multiplier + 1
    assert not exact_in_floats(largest, by)
    assert exact_in_floats(largest // 2, by)
    assert not exact_in_floats(1, Scale(1, 53))
