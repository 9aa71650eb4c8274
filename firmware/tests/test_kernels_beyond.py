"""Kernels that ExecuTorch's host runtime lacks or refuses, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from kernel_cases import plain
from plain_qemu import RunProgram
from programs import export


def run(run_program: RunProgram, function: Any, inputs: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """What the device sends for a function, and torch's answers."""
    exported = export(function, inputs, run=False, preserve=True)
    arrays = [tensor.array for tensor in run_program(exported).tensors()]
    return arrays, [answer.numpy() for answer in function(*inputs)]


def check_equal(run_program: RunProgram, function: Any, inputs: tuple[Any, ...]) -> int:
    """Compare the device's answers with torch's, and return how many there are."""
    outputs, wanted = run(run_program, function, inputs)
    for mine, theirs in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    return len(outputs)


def test_convolutions_of_three_dimensions(run_program: RunProgram) -> None:
    """Sums of n products in two orders differ by at most 2 n 2^-24 times the sum of magnitudes."""
    settings: tuple[tuple[Any, ...], ...] = (
        ((5, 2, 2, 3, 2), [1, 2, 1], [1, 0, 1], [1, 1, 2], False, [0, 0, 0], 2),
        ((4, 3, 2, 2, 3), [2, 1, 2], [0, 1, 0], [1, 1, 1], True, [1, 0, 0], 1),
    )

    def volumes(x: Any, *weights: Any) -> tuple[Any, ...]:
        return tuple(
            torch.ops.aten.convolution.default(x, w, None, *rest)
            for w, (_, *rest) in zip(weights, settings, strict=True)
        )

    x, weights = plain(2, 4, 5, 6, 7), [plain(*sizes[0], seed=3) for sizes in settings]
    weights[0] = plain(6, 2, 2, 3, 2, seed=4)
    outputs, wanted = run(run_program, volumes, (x, *weights))
    bounds = [bound.numpy() for bound in volumes(x.abs(), *(weight.abs() for weight in weights))]
    for mine, theirs, magnitudes, weight in zip(outputs, wanted, bounds, weights, strict=True):
        assert mine.shape == theirs.shape
        terms = weight[0].numel() * weight.shape[0]
        assert np.all(np.abs(mine.astype(np.float64) - theirs) <= 2 * terms * 2.0**-24 * magnitudes)
        assert np.abs(theirs).max() > 1


def test_adaptive_max_pools(run_program: RunProgram) -> None:
    def pools(x: Any, last: Any, flat: Any) -> tuple[Any, ...]:
        pool = torch.ops.aten.adaptive_max_pool2d.default
        return (*pool(x, [1, 1]), *pool(x, [2, 3]), *pool(x, [7, 9]), *pool(last, [3, 2]), *pool(flat, [2, 2]))

    x = plain(2, 3, 5, 7)
    x[0, 0, 2, 3] = float("nan")
    x[1, 1] = 4.0
    assert check_equal(run_program, pools, (x, x.to(memory_format=torch.channels_last), plain(4, 6, 5))) == 10


def test_pools_of_three_dimensions(run_program: RunProgram) -> None:
    pool = torch.ops.aten.max_pool3d_with_indices.default

    def pools(x: Any, last: Any, flat: Any) -> tuple[Any, ...]:
        return (
            *pool(x, [2, 2, 2]),
            *pool(x, [3, 2, 3], [2, 1, 3], [1, 0, 1]),
            *pool(x, [3], [2], [1], [2], True),
            *pool(last, [2, 3, 2], [1, 2, 2]),
            *pool(flat, [2], [], [0], [1], True),
        )

    x = plain(2, 3, 5, 6, 7)
    x[0, 0, 2, 3, 1] = x[0, 0, 2, 3, 2] = float("nan")
    x[1, 1] = 4.0
    x[1, 2, 0] = -float("inf")
    last = x.to(memory_format=torch.channels_last_3d)
    assert check_equal(run_program, pools, (x, last, plain(4, 5, 6, 5))) == 10


def test_batch_norms_that_compute_statistics(run_program: RunProgram) -> None:
    """Mean and scale are rounded once; torch's sums are of floats, n of them in another order."""
    norm = torch.ops.aten._native_batch_norm_legit.no_stats

    def norms(x: Any, w: Any, b: Any, last: Any) -> tuple[Any, ...]:
        return (
            *norm(x, w, b, True, 0.1, 1e-5),
            *norm(x, None, None, True, 0.1, 1e-3),
            *norm(last, w, b, True, 0.1, 1e-5),
        )

    x = plain(2, 4, 5, 6) * 3 + 1
    last = x.to(memory_format=torch.channels_last)
    outputs, wanted = run(run_program, norms, (x, plain(4, seed=2), plain(4, seed=3), last))
    assert len(outputs) == 9
    for mine, theirs in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2 * 60 * 2.0**-24, atol=2 * 60 * 2.0**-24 * 4)
    np.testing.assert_array_equal(outputs[0], outputs[6])


def test_rolls_of_all_elements_in_order(run_program: RunProgram) -> None:
    def rolls(x: Any) -> tuple[Any, ...]:
        return tuple(torch.ops.aten.roll.default(x, [shift]) for shift in (7, -1, 0, 61))

    assert check_equal(run_program, rolls, (plain(3, 4, 5),)) == 4
