"""Activations, pads, picks and conversions by channel give the bits of ExecuTorch's host runtime."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from kernel_cases import Cases, check_cases, plain, ulps, values
from plain_qemu import RunProgram

TYPES = ("bool", "int8", "int32", "int64", "float32", "float64", "float16")


def activations() -> Cases:
    """Between the firmware's exp, rounded once, and the host's lie less than 1 unit; few operations follow."""
    cases = Cases(ulps(4))
    x = torch.cat([plain(200) * 4, torch.tensor([0.0, -0.0, 90.0, -90.0, float("inf"), float("nan")])])
    last = plain(2, 4, 3, 5).to(memory_format=torch.channels_last)
    for alpha, scale, input_scale in ((1.0, 1.0, 1.0), (1.6732632, 1.0507, 1.0), (0.5, 2, 0.25)):
        cases.add("out", "elu.default", [(x,), (last,)], alpha, scale, input_scale)
    cases.add("out", "glu.default", [(plain(4, 6),), (plain(2, 4, 6, seed=2),)], 1)
    cases.add("out", "glu.default", [(plain(3, 8),)], -1)
    cases.add("out", "logit.default", [(torch.rand(100, generator=torch.Generator().manual_seed(1)),)])
    cases.add("out", "logit.default", [(plain(60),)], 0.01)
    cases.add("out", "atan2.default", [(plain(7, 9), plain(9, seed=2)), (values("int32", 9), plain(9))])
    return cases


def moves() -> Cases:
    cases = Cases()
    for dtype in TYPES:
        x = values(dtype, 3, 4, 5)
        cases.add("out", "roll.default", [(x,)], [2, -1], [0, 2])
        cases.add("out", "diagonal_copy.default", [(x,)], 1, 0, 2)
        cases.add("out", "tril.default", [(x,)], -1)
    x = values("float32", 3, 4, 5)
    cases.add("out", "roll.default", [(x,)], [0, 9], [1, 1])
    cases.add("out", "diagonal_copy.default", [(x,)], -2, 2, 1)
    cases.add("out", "diagonal_copy.default", [(values("int8", 4, 4),)])
    cases.add("out", "tril.default", [(x,), (values("int32", 5, 5),)], 1)
    cases.add("Tensor_out", "fill.Tensor", [(values("float32", 2, 3), torch.tensor(2.5))])
    return cases


def pads() -> Cases:
    cases = Cases()
    for dtype in ("int8", "float32", "int64"):
        line, plane, room = values(dtype, 2, 3, 6), values(dtype, 2, 3, 5, 6), values(dtype, 1, 2, 3, 4, 5)
        for name in ("reflection", "replication"):
            cases.add("out", f"{name}_pad1d.default", [(line,)], [2, 1])
            cases.add("out", f"{name}_pad2d.default", [(plane,)], [1, 3, 4, 0])
            cases.add("out", f"{name}_pad3d.default", [(room,)], [1, 2, 0, 3, 2, 1])
    cases.add("out", "replication_pad2d.default", [(values("float32", 3, 2, 2),)], [5, 0, 3, 4])
    return cases


def picks() -> Cases:
    aten = torch.ops.aten
    cases = Cases()
    indices = torch.tensor([[0, 2, 1], [3, 3, 0]])
    for dtype in TYPES:
        x, source = values(dtype, 4, 5), values(dtype, 3, 4, seed=2)
        cases.call("scatter.src_out", lambda a, i, s: aten.scatter.src(a, 0, i, s), x, indices, source)
        if dtype != "bool":
            cases.call("scatter_add.out", lambda a, i, s: aten.scatter_add.default(a, 1, i, s), x, indices, source)
        number = True if dtype == "bool" else 3
        cases.call("scatter.value_out", lambda a, i, n=number: aten.scatter.value(a, -1, i, n), x, indices)
    return cases


def by_channel() -> Cases:
    """Conversions with a scale for each channel."""
    operators = torch.ops.quantized_decomposed
    cases = Cases()
    scales = torch.tensor([0.1, 3.7e-3, 1.3, 7e-6], dtype=torch.float64)
    zeros = torch.tensor([0, -3, 100, 7])
    none = torch.zeros(4, dtype=torch.int64)
    limits = {"int8": (-127, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}
    for dtype, (low, high) in limits.items():
        kind = getattr(torch, dtype)
        for axis, sizes in ((0, (4, 3, 5)), (1, (2, 4, 3, 3)), (-1, (3, 4)), (0, (4,))):
            codes = values(dtype, *sizes) if dtype != "int32" else values("int16", *sizes).to(kind)
            points = zeros if low < 0 and dtype != "int32" else none
            rest = (axis, low, high, kind)
            name, back = "quantized_decomposed::dequantize_per_channel.out", operators.dequantize_per_channel
            cases.call(name, lambda c, s, z, rest=rest, back=back: back(c, s, z, *rest), codes, scales, points)
            if len(sizes) > 1 and axis >= 0:
                name, there = "quantized_decomposed::quantize_per_channel.out", operators.quantize_per_channel
                numbers = plain(*sizes) * 20
                cases.call(name, lambda x, s, z, rest=rest, there=there: there(x, s, z, *rest), numbers, scales, points)
    return cases


def samples() -> Cases:
    cases = Cases()
    operands = [(plain(2, 3, 5, 6), plain(2, 4, 7, 2, seed=3) * 1.7)]
    for mode, padding, corners in itertools.product((0, 1), (0, 1, 2), (False, True)):
        cases.add("out", "grid_sampler_2d.default", operands, mode, padding, corners)
    return cases


def spreads() -> Cases:
    cases = Cases()
    for dims, keep in (([1], False), ([0, 2], True), (None, False)):
        cases.add("correction_out", "var_mean.correction", [(plain(3, 5, 4),)], dims, correction=1, keepdim=keep)
    return cases


GROUPS = (activations, moves, pads, picks, by_channel, samples, spreads)


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_the_host(run_program: RunProgram, group: Callable[[], Cases]) -> None:
    check_cases(run_program, group())
