"""Element-wise kernels give the bits that ExecuTorch's own host runtime gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_cases import REAL, WHOLE, Cases, check_cases, equal_numbers, values
from plain_qemu import RunProgram


def shapes(left: str, right: str) -> list[tuple[Any, Any]]:
    """Return two operands in every way that broadcasts differently, of rank 0 and odd sizes, and in channels_last."""
    return [
        (values(left, 3, 5, 7), values(right, 3, 5, 7, seed=2)),
        (values(left, 3, 5, 7), values(right, 7, seed=2)),
        (values(left, 5, 1), values(right, 3, 1, 9, seed=2)),
        (values(left, 4, 1, 5), values(right, 3, 1, seed=2)),
        (values(left), values(right, 2, 3, seed=2)),
        (values(left, 2, 3), values(right, seed=2)),
        (values(left), values(right, seed=2)),
        (values(left, 1), values(right, 13, seed=2)),
        (values(left, 0, 3), values(right, 1, 3, seed=2)),
        tuple(values(t, 2, 3, 4, 5, seed=s).to(memory_format=torch.channels_last) for s, t in enumerate((left, right))),
    ]


def same_types(*dtypes: str) -> list[tuple[Any, Any]]:
    return [(values(dtype, 37), values(dtype, 37, seed=2)) for dtype in dtypes]


def mixed_types(*dtypes: str) -> list[tuple[Any, Any]]:
    return [(values(a, 23), values(b, 23, seed=2)) for a, b in itertools.permutations(dtypes, 2)]


def ones(*dtypes: str) -> list[tuple[Any]]:
    return [(values(dtype, 61),) for dtype in dtypes]


def layouts(dtype: str) -> list[tuple[Any]]:
    """Return one operand of rank 0, one without elements, and one in channels_last."""
    last = values(dtype, 2, 3, 4, 5).to(memory_format=torch.channels_last)
    return [(values(dtype),), (values(dtype, 3, 0),), (last,)]


def arithmetic() -> Cases:
    cases = Cases()
    # Types mix only where to_edge lets them; it puts conversions before add, sub, mul, div and minimum.
    cases.add("out", "maximum.default", mixed_types("bool", *REAL))
    for name in ("add", "sub"):
        cases.add("out", f"{name}.Tensor", shapes("float32", "float32") + shapes("int8", "int8") + same_types(*REAL))
        cases.add("out", f"{name}.Tensor", same_types(*WHOLE), alpha=3)
        cases.add("out", f"{name}.Tensor", same_types("float32", "float16"), alpha=0.3)
        cases.add("Scalar_out", f"{name}.Scalar", ones(*REAL), 7)
        cases.add("Scalar_out", f"{name}.Scalar", ones("float32", "float16", "float64"), 0.3, 2)
    cases.add("out", "mul.Tensor", shapes("float32", "float32") + same_types("bool", *REAL))
    cases.add("Scalar_out", "mul.Scalar", ones(*REAL), 3)
    cases.add("Scalar_out", "mul.Scalar", ones("int32", "float32", "bfloat16"), 0.7)
    for name in ("maximum", "minimum"):
        cases.add("out", f"{name}.default", shapes("float32", "float32") + same_types("bool", *REAL))
    divisible = [pair for pair in shapes("float32", "float32") if min(pair[0].numel(), pair[1].numel()) > 1]
    cases.add("out", "div.Tensor", divisible + same_types("float16", "bfloat16", "float32", "float64"))
    for mode in ("trunc", "floor"):
        cases.add("out_mode", "div.Tensor_mode", divisors(*WHOLE), rounding_mode=mode)
        cases.add("out_mode", "div.Tensor_mode", same_types("float32"), rounding_mode=mode)
        cases.add("Scalar_mode_out", "div.Scalar_mode", ones(*WHOLE[:-1], "float32"), -3, rounding_mode=mode)
    cases.add("Tensor_out", "remainder.Tensor", divisors(*WHOLE) + same_types("float32", "float64"))
    cases.add("Scalar_out", "remainder.Scalar", ones("int8", "int64", "float32"), 5)
    cases.add("Tensor_out", "fmod.Tensor", divisors("int8", "int32") + same_types("float32", "float64"))
    cases.add("Scalar_out", "fmod.Scalar", ones("float32"), 0.7)
    return cases


def divisors(*dtypes: str) -> list[tuple[Any, Any]]:
    """Return divisors without 0 and -1: the host traps when the lowest integer is divided by -1.

    There are no quotients beyond 2^53 either, because the host computes those as doubles.
    """
    large = {dtype: 2**14 - 1 if dtype == "int64" else 5 for dtype in dtypes}
    return [
        (a, b.where((b != 0) & (b != -1), 3).where(abs(a.double()) < 2.0**52, large[dtype]))
        for dtype, (a, b) in zip(dtypes, same_types(*dtypes), strict=True)
    ]


def comparisons() -> Cases:
    cases = Cases()
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        cases.add("Tensor_out", f"{name}.Tensor", shapes("float32", "float32") + few(same_types("bool", *REAL)))
        cases.add("Tensor_out", f"{name}.Tensor", few(mixed_types("int8", "int64", "float32", "float64")))
        cases.add("Scalar_out", f"{name}.Scalar", few(ones(*REAL)), 1)
        cases.add("Scalar_out", f"{name}.Scalar", few(ones("int32", "float32")), 0.5)
    for name in ("and", "or", "xor"):
        cases.add("out", f"logical_{name}.default", shapes("bool", "float32") + mixed_types("int64", "bool", "float16"))
        cases.add("Tensor_out", f"bitwise_{name}.Tensor", shapes("int32", "uint8") + same_types("bool", *WHOLE))
        cases.add("Scalar_out", f"bitwise_{name}.Scalar", ones(*WHOLE), 0x55)
    cases.add("out", "logical_not.default", ones("bool", *REAL) + layouts("float32"))
    cases.add("out", "bitwise_not.default", ones("bool", *WHOLE) + layouts("int16"))
    return cases


def few(operands: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return numbers that are often equal."""

    def lessen(tensor: Any) -> Any:
        return tensor if tensor.dtype in (torch.bool, torch.uint8) else tensor.clamp(-2, 2)

    return [tuple(lessen(tensor) for tensor in tensors) for tensors in operands]


def choices_and_limits() -> Cases:
    # On the host, the position in a vector decides which of two zeros is larger.
    cases = Cases(equal_numbers)
    flags = values("bool", 3, 1, 7)
    for left, right in [*same_types("bool", *REAL), (values("float32", 37), values("float16", 37))]:
        cases.add("self_out", "where.self", [(values("bool", 37, seed=3), left, right)])
    cases.add("self_out", "where.self", [(flags, *pair) for pair in shapes("float32", "float32")[:2]])
    cases.add("self_out", "where.self", [(values("bool"), values("int64"), values("int64", 2, 3))])
    for low, high in ((-1, 2), (None, 5), (0, None), (3, 1)):
        cases.add("out", "clamp.default", ones(*REAL)[1:] + layouts("float32"), low, high)
    cases.add("out", "clamp.default", ones("float32", "float16", "int8", "bfloat16"), -0.5, 6.5)
    three = [(values("float32", 5, 7), values("float32", 7, seed=2), values("float32", 5, 1, seed=3))]
    cases.add("Tensor_out", "clamp.Tensor", three)
    cases.add("out", "hardtanh.default", ones("float32", "float16", "bfloat16", "float64"), -0.25, 6.0)
    cases.add("out", "hardtanh.default", ones("int8", "int64"), -3, 3)
    cases.add("out", "leaky_relu.default", ones("float32", "float16", "bfloat16", "float64"), 0.3)
    return cases


def exact_functions() -> Cases:
    cases = Cases()
    small = ones("float16", "bfloat16", "float32", "float64")
    for name in ("abs", "neg", "relu", "sign"):
        cases.add("out", f"{name}.default", ones(*REAL) + layouts("float32"))
    for name in ("ceil", "floor", "trunc", "round"):
        cases.add("out", f"{name}.default", small + ties("float32", "float64", "float16") + layouts("float32"))
    cases.add("out", "round.default", ones(*WHOLE))
    for name in ("sqrt", "rsqrt", "reciprocal"):
        cases.add("out", f"{name}.default", small + ones("bool", *WHOLE) + layouts("float32"))
    return cases


def ties(*dtypes: str) -> list[tuple[Any]]:
    tied = (torch.arange(-40, 40, dtype=torch.float64) + 0.5) * 0.5
    return [(torch.cat([tied, tied * 2**23, tied * 2**22]).to(getattr(torch, dtype)),) for dtype in dtypes]


GROUPS = (
    arithmetic,
    comparisons,
    choices_and_limits,
    exact_functions,
)


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_equal_the_host(run_program: RunProgram, group: Callable[[], Cases]) -> None:
    check_cases(run_program, group())
