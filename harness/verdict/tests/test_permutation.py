"""Outputs in another order: found where chance cannot explain it, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.harness.verdict.against_pytorch import permutation

STEP = 0.05


def answers(count: int, size: int, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [STEP * random.integers(-100, 100, (1, size)).astype(np.float32) for _ in range(count)]


def noisy(arrays: list[np.ndarray], steps: int, seed: int = 1) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [(array + STEP * random.integers(-steps, steps + 1, array.shape)).astype(np.float32) for array in arrays]


@pytest.mark.parametrize("size", [16, 100, 1000])
@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("order", [(1, 0), (1, 2, 0), (0, 2, 1), (3, 1, 2, 0)])
def test_another_order_is_found(size: int, steps: int, order: tuple[int, ...]) -> None:
    wanted = answers(len(order), size)
    outputs = noisy([wanted[at] for at in order], steps)
    assert permutation(wanted, outputs, [STEP] * len(order)) == order
    assert permutation(wanted, outputs, [0.0] * len(order)) == order


@pytest.mark.parametrize("size", [1, 2, 4, 16, 100])
@pytest.mark.parametrize("steps", [0, 1, 5, 30, 100, 1000])
def test_the_right_order_is_never_called_wrong(size: int, steps: int) -> None:
    """Even where the roundings are larger than the answers."""
    for seed in range(200):
        wanted = answers(3, size, seed)
        assert permutation(wanted, noisy(wanted, steps, seed + 1000), [STEP] * 3) is None


@pytest.mark.parametrize(("part", "expected"), [(0.192, True), (0.208, False)])
def test_an_order_is_told_where_chance_explains_it_with_less_than_one_in_a_billion(part: float, expected: bool) -> None:
    """r**((n - 1) / 2) for 16 values, each `part` of the way back to the model's order: r = (part / (1 - part))**2."""
    wanted = [np.zeros((1, 16), np.float64), np.arange(1.0, 17.0).reshape(1, 16)]
    outputs = [other + part * (array - other) for array, other in zip(wanted, wanted[::-1], strict=True)]
    chance = (part / (1 - part)) ** 15
    assert (chance < 1e-9) == expected
    assert permutation(wanted, outputs, [1e-6] * 2) == ((1, 0) if expected else None)


def test_two_outputs_that_are_one_of_pytorchs_are_no_order() -> None:
    wanted = answers(2, 100)
    assert permutation(wanted, [wanted[1], wanted[1]], [STEP] * 2) is None


def test_single_numbers_are_not_told_apart_beside_outputs_that_are() -> None:
    wanted = [*answers(2, 100), np.full((1,), 1.0, np.float32), np.full((1,), 9.0, np.float32)]
    assert permutation(wanted, [wanted[at] for at in (1, 0, 3, 2)], [STEP] * 4) == (1, 0, 2, 3)


def test_two_numbers_are_enough_where_chance_leaves_no_doubt() -> None:
    """A box's two corners: each is a few steps of 1e-9 from its own, and far from the other."""
    wanted = [np.array([0.0, 1.0]), np.array([5.0, 9.0])]
    assert permutation(wanted, wanted[::-1], [1e-9] * 2) == (1, 0)
    assert permutation(wanted, wanted[::-1], [0.1] * 2) is None


def test_outputs_that_are_nearly_equal_are_not_told_apart() -> None:
    """Two heads that differ by a step: roundings of a step swap them."""
    (array,) = answers(1, 100)
    wanted = [array, array + np.float32(STEP)]
    assert permutation(wanted, [wanted[1], wanted[0]], [STEP] * 2) is None
    wanted = [array, array + np.float32(10 * STEP)]  # a constant apart
    assert permutation(wanted, [wanted[1], wanted[0]], [STEP] * 2) is None
    constant = [np.full((1, 100), value, np.float32) for value in (1.0, 2.0)]  # one value says it all
    assert permutation(constant, constant[::-1], [STEP] * 2) is None


def test_only_outputs_of_equal_form_are_exchanged() -> None:
    wanted = answers(2, 100)
    shaped = [wanted[0], wanted[1].reshape(10, 10)]
    assert permutation(shaped, [wanted[1], wanted[0].reshape(10, 10)], [STEP] * 2) is None
    flags = [array > 0 for array in wanted]
    assert permutation(flags, flags[::-1], [0.0] * 2) is None


def test_nan_and_infinity_do_not_hide_an_order() -> None:
    wanted = answers(2, 100)
    wanted[0][0, 3], wanted[1][0, 7] = np.nan, np.inf
    assert permutation(wanted, wanted, [STEP] * 2) is None
    assert permutation(wanted, wanted[::-1], [STEP] * 2) == (1, 0)
