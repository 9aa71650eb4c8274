"""Pools, means, batch norms and interpolations give the bits of ExecuTorch's host runtime; test_oracle.py compares the
reference with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from kernel_cases import Cases, array_of, check_cases, check_close
from plain_qemu import RunProgram
from programs import export
from torch import nn

from ethos_hil.harness.image.formats import ErrorKind

SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, 16777217.0)


def odd_values(*sizes: int, share: float = 0.15, seed: int = 5) -> Any:
    """Return random floats of many magnitudes, `share` of them from SPECIAL, and a run of -0.0."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(sizes, generator=generator) * torch.exp2(torch.randint(-12, 12, sizes, generator=generator))
    special = torch.tensor(SPECIAL)[torch.randint(0, len(SPECIAL), sizes, generator=generator)]
    values = torch.where(torch.rand(sizes, generator=generator) < share, special, values)
    flat = values.flatten()
    flat[: flat.numel() // 10] = -0.0
    return flat.reshape(sizes)


def pools() -> Cases:
    cases = Cases()
    images = [(odd_values(2, 3, 9, 11, share=0.03),), (odd_values(5, 14, 13, share=0.03, seed=6),)]
    for numbers in (
        ([4, 4], [4, 4], [0, 0], False, True),
        ([2, 7], [5, 3], [0, 0], False, True),
        ([1, 1], [1, 1], [0, 0], False, True),
        ([3, 3], [2, 2], [1, 1], False, True),
        ([3, 3], [2, 2], [1, 1], True, True),
        ([5, 4], [4, 4], [2, 1], True, False),
        ([5, 5], [4, 4], [2, 2], False, False),
        ([3, 3], [3, 3], [0, 0], False, True, 7),
        ([3, 3], [3, 3], [1, 1], True, True, -2),
        ([9, 11], [9, 11], [0, 0], False, True),
    ):
        cases.add("out", "avg_pool2d.default", images, *numbers)
    images = [(odd_values(2, 3, 9, 11),), (odd_values(4, 13, 10, seed=6),)]
    for numbers in (
        ([4, 4], [4, 4], [0, 0], [1, 1], False),
        ([2, 5], [4, 3], [0, 0], [1, 1], False),
        ([1, 1], [1, 1], [0, 0], [1, 1], False),
        ([3, 3], [2, 2], [1, 1], [1, 1], True),
        ([3, 2], [1, 1], [1, 0], [2, 3], False),
        ([3, 3], [4, 4], [1, 1], [2, 2], True),
        ([5, 5], [4, 4], [2, 2], [1, 1], False),
        ([3, 4], [2, 5], [1, 1], [1, 1], True),
    ):
        cases.add("out", "max_pool2d_with_indices.default", images, *numbers)
    return cases


def means_and_shapes() -> Cases:
    cases = Cases()
    x = [(odd_values(3, 5, 17, 23, share=0.002),)]
    for dimensions in ([-1], [2, 3], [1], [3, 0], [0], [1, -1]):
        cases.add("out", "mean.dim", x, dimensions, True)
        cases.add("out", "mean.dim", x, dimensions)
    cases.add("out", "mean.dim", x, [])
    line = [(odd_values(3, 1, 5),)]
    cases.add("dims_out", "squeeze_copy.dims", line, [1, 0])
    for dimension in (2, -1, -4):
        cases.add("out", "unsqueeze_copy.default", line, dimension)
    return cases


def interpolations() -> Cases:
    cases = Cases()
    images = [(odd_values(2, 3, 5, 7, share=0.03),), (odd_values(1, 2, 5, 3, share=0.0, seed=6),)]
    for size, corners, factors in (
        (None, False, [2.0, 2.0]),
        (None, False, [1.7, 0.6]),
        ([3, 21], False, None),
        ([9, 7], True, None),
        ([1, 1], True, None),
        ([5, 7], False, None),
    ):
        cases.add("vec_out", "upsample_bilinear2d.vec", images, size, corners, factors)
    return cases


def batch_norms() -> Cases:
    """Variances are ordinary, huge, tiny, 0, infinite, NaN and (never real) negative."""
    norm = torch.ops.aten._native_batch_norm_legit_no_training.default
    odd = torch.tensor([0.0, 1e-42, 3e38, float("inf"), float("nan"), -3.0, -1e-6])
    cases = Cases()
    for seed, (x, affine, eps) in enumerate((
        (odd_values(7, 60), True, 1e-5),
        (odd_values(3, 60, 17), False, 0.3),
        (odd_values(3, 9, 7, 5), True, 1e-3),
        (odd_values(1, 9, 1, 1), True, 1e-3),
    )):  # fmt: skip
        generator, channels = torch.Generator().manual_seed(seed), x.shape[1]
        mean, weight, bias = (torch.randn(channels, generator=generator) * 3 for _ in range(3))
        variance = torch.exp(torch.randn(channels, generator=generator) * 4)
        variance[:7] = odd
        statistics = (mean, variance, weight, bias) if affine else (mean, variance)
        cases.call(
            "_native_batch_norm_legit_no_training.out",
            lambda x, m, v, w=None, b=None, eps=eps: norm(x, w, b, m, v, 0.1, eps)[0],
            *(x, *statistics),
        )
    return cases


GROUPS = (pools, means_and_shapes, interpolations, batch_norms)


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_the_host(run_program: RunProgram, group: Callable[[], Cases]) -> None:
    assert any(not np.isnan(array).all() for array in check_cases(run_program, group()))


def test_channels_last_pools_equal_contiguous_ones(run_program: RunProgram) -> None:
    image = odd_values(2, 6, 9, 11, share=0.03)
    layers = nn.ModuleList([nn.AvgPool2d(4, padding=1), nn.MaxPool2d(5, stride=4), nn.BatchNorm2d(6, affine=False)])

    def apply(x: Any) -> Any:
        return tuple(layer(x) for layer in layers.eval())

    # Upstream's average pool and batch norm refuse this layout; what they would give is what they give for the other.
    last = export(apply, (image.to(memory_format=torch.channels_last),), run=False)
    plain = export(apply, (image,))
    tensors = run_program(last).tensors()
    assert len(tensors) == 3
    assert any(tuple(tensor.info["dim_order"][:4]) == (0, 2, 3, 1) for tensor in tensors)
    for tensor, expected in zip(tensors, plain.outputs, strict=True):
        check_close(np.ascontiguousarray(tensor.array), array_of(expected.contiguous()), None, str(tensor.info))


@pytest.mark.parametrize(
    ("operator", "layer", "dtype"),
    [
        ("avg_pool2d", nn.AvgPool2d(2), torch.int64),
        ("max_pool2d", nn.MaxPool2d(2), torch.int64),
        ("batch_norm", nn.BatchNorm2d(3).double().eval(), torch.float64),
    ],
)
def test_other_types_are_refused_by_name(run_program: RunProgram, operator: str, layer: Any, dtype: Any) -> None:
    exported = export(layer, (torch.ones(1, 3, 4, 4, dtype=dtype),), run=False)
    run_program(exported).check_error(ErrorKind.KERNEL, "is not supported", operator)
