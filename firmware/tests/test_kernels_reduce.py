"""Reductions, products and layers give the bits of ExecuTorch's host runtime, as far as that adds in one order.

The host's kernels of sum (over one dimension), mm, bmm and linear are optimised ones, which add in another order than
the portable kernels that devices run. In any order, a float sum of n terms is off by at most (n - 1) * 2^-24 times the
sum of magnitudes, to first order (Higham, Accuracy and Stability of Numerical Algorithms, 4.2); two such sums differ by
at most twice that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from kernel_cases import REAL, WHOLE, Bound, Cases, check_cases, plain, values
from plain_qemu import RunProgram
from programs import export

TYPES = ("bool", *REAL)
FLOATS = ("float16", "bfloat16", "float32", "float64")


def few(dtype: str, *sizes: int) -> Any:
    """Return numbers with many equal ones."""
    return values(dtype, *sizes) if dtype in ("bool", "uint8") else values(dtype, *sizes).clamp(-2, 2)


def sum_bound(axis: int) -> Bound:
    def bound(expected: Any, inputs: list[Any]) -> Any:
        magnitudes = np.abs(inputs[0].astype(np.float64)).sum(axis=axis)
        return 2 * inputs[0].shape[axis] * 2.0**-24 * magnitudes.reshape(expected.shape) + 1e-38

    return bound


def product_bound(expected: Any, inputs: list[Any]) -> Any:
    left, right = (np.abs(value.astype(np.float64)) for value in inputs[:2])
    return 2 * (left.shape[-1] + 2) * 2.0**-24 * (left @ right) + 1e-38


def sums() -> Cases:
    cases = Cases()
    for dtype in TYPES:
        kind = getattr(torch, dtype)
        x = [(values(dtype, 3, 5, 4),)]
        cases.add("IntList_out", "sum.dim_IntList", x, [0, 2], False, dtype=kind)
        cases.add("IntList_out", "sum.dim_IntList", x, None, True, dtype=torch.float32)
        cases.add("out", "mean.dim", x, [0, -1], True, dtype=torch.float32)
    for dtype in WHOLE:
        # Numbers whose sums a float holds: the host adds up integers of the output's type as floats.
        cases.add("IntList_out", "sum.dim_IntList", [(values(dtype, 4, 6) % 100,)], [1], dtype=getattr(torch, dtype))
    for dtype in FLOATS:
        cases.add("out", "mean.dim", [(values(dtype, 3, 5, 4),)], [1, 2])
        cases.add("out", "mean.dim", [(values(dtype, 3, 9),)], [-1])
        cases.add("dtype_out", "mean.default", [(values(dtype, 3, 5),)])
    cases.add("IntList_out", "sum.dim_IntList", [(values("float32"),)], None)
    cases.add("IntList_out", "sum.dim_IntList", [(values("float32", 3, 0),)], [1])
    cases.bound = sum_bound(1)
    cases.add("IntList_out", "sum.dim_IntList", [(plain(3, 77),), (plain(2, 33, 5),)], [1])
    return cases


def extremes() -> Cases:
    cases = Cases()
    for dtype in TYPES:
        x = [(few(dtype, 3, 5, 4),)]
        for name in ("amax", "amin"):
            cases.add("out", f"{name}.default", x, [1])
            cases.add("out", f"{name}.default", x, [0, 2], True)
            cases.add("out", f"{name}.default", [(values(dtype, 9),)], [])
        for name in ("max", "min"):
            cases.add(f"dim_{name}", f"{name}.dim", x, 1, True)
            cases.add("unary_out", f"{name}.default", [(values(dtype, 2, 5),)])
        if dtype != "bool":
            for name in ("argmax", "argmin"):
                cases.add("out", f"{name}.default", x, 1)
                cases.add("out", f"{name}.default", x)
                cases.add("out", f"{name}.default", [(values(dtype, 41),)], 0, True)
        cases.add("out", "any.dim", [(few(dtype, 3, 2),)], 1)
        cases.add("all_out", "any.default", [(few(dtype, 3, 2),)])
        cases.add("dims_out", "any.dims", [(few(dtype, 3, 2, 2),)], [0, 1], True)
        if dtype != "bool":
            cases.add("out", "cumsum.default", x, 1)
    cases.add("out", "argmax.default", [(values("float32"),)], 0)
    for dtype in FLOATS[2:]:
        cases.add("out", "cumsum.default", [(plain(3, 20, dtype=dtype),)], -1)
    return cases


def distinct(dtype: str, *sizes: int) -> Any:
    """Return numbers that are distinct along every line."""
    count = int(np.prod(sizes))
    order = torch.randperm(count, generator=torch.Generator().manual_seed(3)) - count // 2
    return order.reshape(sizes).to(getattr(torch, dtype))


def the_first_few() -> Cases:
    cases = Cases()
    for dtype in ("int8", "int32", "int64", *FLOATS):
        cases.add("values", "topk.default", [(distinct(dtype, 4, 10, 3),)], 4, 1)
        cases.add("values", "topk.default", [(distinct(dtype, 90),)], 7, -1, False)
    cases.add("values", "topk.default", [(values("float32"),)], 1)
    return cases


def test_sorting_equals_torch(run_program: RunProgram) -> None:
    """ExecuTorch has no kernel for it. torch's own is stable on the CPU, even where that is not requested."""

    def sorts(*inputs: Any) -> Any:
        outputs: list[Any] = []
        for x in inputs:
            for dimension in range(-1, x.dim() - 1):
                outputs += torch.ops.aten.sort.default(x, dimension)
                outputs += torch.ops.aten.sort.default(x, dimension, True)
        return tuple(outputs)

    inputs = tuple(few(dtype, 4, 70) for dtype in (*WHOLE, "float16", "float32", "float64"))
    inputs = (*inputs, values("float32", 300), values("int32"))
    exported = export(sorts, inputs, run=False, preserve=True)
    tensors = run_program(exported).tensors()
    expected = [
        out
        for x in inputs
        for d in range(-1, x.dim() - 1)
        for down in (False, True)
        for out in torch.sort(x, dim=d, descending=down, stable=True)
    ]
    assert len(tensors) == len(expected)
    for tensor, wanted in zip(tensors, expected, strict=True):
        assert np.array_equal(tensor.array, wanted.numpy(), equal_nan=wanted.is_floating_point())


def products_of_matrices() -> Cases:
    cases = Cases()
    for dtype in WHOLE[1:]:
        cases.add("out", "mm.default", [(values(dtype, 3, 5), values(dtype, 5, 4, seed=2))])
        three = (values(dtype, 4), values(dtype, 3, 5), values(dtype, 5, 4, seed=2))
        cases.add("out", "addmm.default", [three], beta=2, alpha=3)
    for summand in (plain(6, seed=3), plain(5, 6, seed=3), plain(5, 1, seed=3)):
        cases.add("out", "addmm.default", [(summand, plain(5, 17), plain(17, 6, seed=2))], beta=0.3, alpha=0.7)
    cases.bound = product_bound
    cases.add("out", "mm.default", [(plain(5, 33), plain(33, 7, seed=2)), (plain(1, 1), plain(1, 1, seed=2))])
    cases.add("out", "bmm.default", [(plain(3, 5, 33), plain(3, 33, 7, seed=2))])
    cases.bound = lambda expected, inputs: product_bound(expected, [inputs[0], inputs[1].T])
    matrices = (plain(2, 3, 19), plain(8, 19, seed=2), plain(8, seed=3))
    cases.add("out", "linear.default", [matrices, matrices[:2]])
    return cases


def convolutions() -> Cases:
    cases = Cases()

    def add(image: Any, weight: Any, *numbers: Any, bias: bool = True) -> None:
        transposed, groups = numbers[3], numbers[5]
        channels = weight.shape[1] * groups if transposed else weight.shape[0]
        inputs = (image, weight, plain(channels, seed=3)) if bias else (image, weight)
        convolve = torch.ops.aten.convolution.default
        cases.call("convolution.out", lambda x, w, b=None: convolve(x, w, b, *numbers), *inputs)

    image = plain(2, 4, 9, 7)
    add(image, plain(6, 4, 3, 2), [2, 1], [1, 0], [1, 2], False, [0, 0], 1)
    add(image, plain(6, 2, 1, 3), [1], [0], [1], False, [0], 2)
    add(image, plain(4, 1, 3, 3), [1, 1], [2, 2], [2, 2], False, [0, 0], 4, bias=False)
    add(image.to(memory_format=torch.channels_last), plain(5, 4, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    add(plain(2, 3, 11), plain(4, 3, 5), [2], [2], [1], False, [0], 1)
    add(image, plain(4, 3, 3, 2), [2, 3], [1, 0], [1, 2], True, [1, 2], 1)
    add(image, plain(4, 2, 2, 2), [2, 2], [0, 0], [1, 1], True, [0, 0], 2, bias=False)
    add(plain(1, 3, 6), plain(3, 2, 4), [2], [1], [1], True, [1], 1)
    return cases


def norms_and_resizing() -> Cases:
    cases = Cases()
    layer = torch.ops.aten.native_layer_norm.default
    cases.add("out", "native_layer_norm.default", [(plain(3, 5, 4),)], [5, 4], None, None, 1e-5)
    three = (plain(7, 33), plain(33, seed=2), plain(33, seed=3))
    cases.call("native_layer_norm.out", lambda x, w, b: layer(x, [33], w, b, 1e-3), *three)
    images = [(plain(2, 3, 5, 7),)]
    for size, factors in (([10, 7], None), (None, [1.7, 0.6]), ([3, 21], None), ([1, 1], None)):
        cases.add("vec_out", "upsample_nearest2d.vec", images, size, factors)
        cases.add("vec_out", "upsample_nearest2d.vec", [(values("int8", 1, 2, 4, 3),)], size, factors)
        for corners in (False, True):
            cases.add("vec_out", "upsample_bilinear2d.vec", images, size, corners, factors)
    for size in ([1, 1], [2, 3], [5, 7], [7, 10]):
        cases.add("out", "_adaptive_avg_pool2d.default", [images[0], (plain(3, 8, 9),)], size)
    return cases


def test_layouts_that_the_host_refuses_equal_contiguous_ones(run_program: RunProgram) -> None:
    aten = torch.ops.aten

    def layouts(*images: Any) -> Any:
        outputs: list[Any] = []
        for x in images:
            outputs += [
                aten.upsample_nearest2d.vec(x, [8, 5], None),
                aten.upsample_bilinear2d.vec(x, [8, 5], False, None),
                aten._adaptive_avg_pool2d.default(x, [2, 3]),
                aten._softmax.default(x, 1, False),
                aten.cumsum.default(x, 2),
                aten.sum.dim_IntList(x, [1, 3]),
            ]
        return tuple(outputs)

    image = plain(2, 3, 5, 7)
    images = (image, image.to(memory_format=torch.channels_last))
    exported = export(layouts, images, run=False, preserve=True)
    arrays = [tensor.array for tensor in run_program(exported).tensors()]
    assert len(arrays) == 12
    for contiguous, other in zip(arrays[:6], arrays[6:], strict=True):
        assert np.array_equal(contiguous, other)


GROUPS = (
    sums,
    extremes,
    the_first_few,
    products_of_matrices,
    convolutions,
    norms_and_resizing,
)


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_the_host(run_program: RunProgram, group: Callable[[], Cases]) -> None:
    check_cases(run_program, group())
