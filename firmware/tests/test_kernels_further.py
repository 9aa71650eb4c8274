"""Activations, pads, picks and conversions by channel give the bits of ExecuTorch's host runtime."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
from kernel_cases import Case, Cases, check_cases, ulps, values
from plain_qemu import RunProgram

TYPES = ("bool", "int8", "int32", "int64", "float32", "float64", "float16")


def plain(*sizes: int, seed: int = 1) -> Any:
    """Return ordinary numbers of both signs."""
    import torch

    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def activations() -> Cases:
    """Between the firmware's exp, rounded once, and the host's lie less than 1 unit; few operations follow."""
    import torch

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
    import torch

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
    cases.append(
        Case(
            "aten::fill.Tensor_out",
            lambda a, b: torch.ops.aten.fill.Tensor(a, b),
            (values("float32", 2, 3), torch.tensor(2.5)),
        )
    )
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
    import torch

    cases = Cases()
    indices = torch.tensor([[0, 2, 1], [3, 3, 0]])
    for dtype in TYPES:
        x, source = values(dtype, 4, 5), values(dtype, 3, 4, seed=2)
        call = torch.ops.aten.scatter.src
        cases.append(Case("aten::scatter.src_out", lambda a, i, s, call=call: call(a, 0, i, s), (x, indices, source)))
        if dtype not in ("bool",):
            cases.append(
                Case(
                    "aten::scatter_add.out",
                    lambda a, i, s: torch.ops.aten.scatter_add.default(a, 1, i, s),
                    (x, indices, source),
                )
            )
        number = True if dtype == "bool" else 3
        cases.append(
            Case(
                "aten::scatter.value_out",
                lambda a, i, n=number: torch.ops.aten.scatter.value(a, -1, i, n),
                (x, indices),
            )
        )
    return cases


def by_channel() -> Cases:
    """Conversions with a scale for each channel."""
    import torch

    importlib.import_module("torch.ao.quantization.fx._decomposed")
    operators = torch.ops.quantized_decomposed
    cases = Cases()
    scales = torch.tensor([0.1, 3.7e-3, 1.3, 7e-6], dtype=torch.float64)
    zeros = torch.tensor([0, -3, 100, 7])
    none = torch.zeros(4, dtype=torch.int64)
    for dtype, low, high in (
        ("int8", -127, 127),
        ("uint8", 0, 255),
        ("int16", -32768, 32767),
        ("int32", -(2**31), 2**31 - 1),
    ):
        kind = getattr(torch, dtype)
        for axis, sizes in ((0, (4, 3, 5)), (1, (2, 4, 3, 3)), (-1, (3, 4)), (0, (4,))):
            codes = values(dtype, *sizes) if dtype != "int32" else values("int16", *sizes).to(kind)
            points = zeros if low < 0 and dtype != "int32" else none

            def back(c: Any, s: Any, z: Any, a: Any = axis, lo: Any = low, hi: Any = high, k: Any = kind) -> Any:
                return operators.dequantize_per_channel(c, s, z, a, lo, hi, k)

            def there(x: Any, s: Any, z: Any, a: Any = axis, lo: Any = low, hi: Any = high, k: Any = kind) -> Any:
                return operators.quantize_per_channel(x, s, z, a, lo, hi, k)

            cases.append(Case("quantized_decomposed::dequantize_per_channel.out", back, (codes, scales, points)))
            if len(sizes) > 1 and axis >= 0:
                numbers = plain(*sizes) * 20
                cases.append(Case("quantized_decomposed::quantize_per_channel.out", there, (numbers, scales, points)))
    return cases


def samples() -> Cases:
    import torch

    cases = Cases()
    image, grid = plain(2, 3, 5, 6), plain(2, 4, 7, 2, seed=3) * 1.7
    for mode in (0, 1):
        for padding in (0, 1, 2):
            for corners in (False, True):
                call = torch.ops.aten.grid_sampler_2d.default
                cases.append(
                    Case(
                        "aten::grid_sampler_2d.out",
                        lambda x, g, m=mode, p=padding, c=corners, call=call: call(x, g, m, p, c),
                        (image, grid),
                    )
                )
    return cases


def spreads() -> Cases:
    import torch

    cases = Cases()
    operator = torch.ops.aten.var_mean.correction
    for dims, keep in (([1], False), ([0, 2], True), (None, False)):
        cases.append(
            Case(
                "aten::var_mean.correction_out",
                lambda x, d=dims, k=keep: operator(x, d, correction=1, keepdim=k),
                (plain(3, 5, 4),),
            )
        )
    return cases


GROUPS = (activations, moves, pads, picks, by_channel, samples, spreads)


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_the_host(run_program: RunProgram, group: Callable[[], Cases]) -> None:
    check_cases(run_program, group())
