"""Functions of floats that are not exact: rounded once, and as near to the host as the host is to the true value.

The host's libm is off by up to one unit, and some of the host's kernels are vectorised with another one, so equal
results are not expected. Each result is compared with the same function of doubles, which is off by less than 2^-28 of
a float's last place, and with the host's, with two units more allowed: glibc and SLEEF stay within 1, and glibc's log10
within 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from kernel_cases import Bound, Cases, check_cases, ulps, values
from plain_qemu import RunProgram

COUNT = 2000

# Units in the last place. All are computed in double and rounded once (firmware/runtime/kernels/rounded.h): half a
# unit, and what newlib's functions of doubles are off by, less than 2^-20 of a unit.
ROUNDED = 0.5 + 2.0**-20
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "log": np.log, "log10": np.log10, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
}  # fmt: skip


def inputs(count: int) -> Any:
    """Return all magnitudes, special values, and the range where functions bend."""
    generator = torch.Generator().manual_seed(9)
    patterns = torch.randint(-(2**31), 2**31, (count,), generator=generator).to(torch.int32).view(torch.float32)
    near = (torch.rand(count, generator=generator) - 0.5) * 32
    ends = torch.tensor([0.0, -0.0, 1.0, -1.0, 88.72, 88.73, -87.33, -103.9, -104.0, 89.4, 9.01, 0.5, -0.5, 1e-45])
    special = torch.tensor([float("inf"), float("-inf"), float("nan")])
    return torch.cat([patterns, near, near / 64, ends, special])


def errors(answers: Any, truth: Any) -> Any:
    """Return the errors in units in the last place of a float; 0 for equal values, and where both are NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = truth.astype(np.float32)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        unit = np.where(np.isfinite(rounded), unit, np.spacing(np.float32(3e38)))
        # Beyond the range, infinity is a last place away from the largest float.
        reach = np.float64(2.0**128)
        off = np.abs(np.clip(answers.astype(np.float64), -reach, reach) - np.clip(truth, -reach, reach)) / unit
    same = (answers == rounded) | (np.isnan(answers) & np.isnan(rounded))
    return np.where(same, 0, off)


def functions() -> Cases:
    cases = Cases(ulps(ROUNDED + 2))
    for name in FUNCTIONS:
        cases.add("out", f"{name}.default", [(inputs(COUNT),)])
    return cases


def test_functions_are_near_the_truth_and_the_host(run_program: RunProgram) -> None:
    x = inputs(COUNT).numpy().astype(np.float64)
    for (name, function), output in zip(FUNCTIONS.items(), check_cases(run_program, functions()), strict=True):
        with np.errstate(all="ignore"):
            off = errors(output, function(x))
        worst = int(np.argmax(off))
        assert off[worst] <= ROUNDED, f"{name}({x[worst]}) is off by {off[worst]:.3f} units"


def functions_of_other_types_and_layouts() -> Cases:
    cases = Cases(ulps(2))
    x = inputs(60)
    for name in ("exp", "log", "sigmoid", "tanh", "erf", "sin"):
        cases.add("out", f"{name}.default", [(x.to(torch.float16),)])
        cases.add("out", f"{name}.default", [(values("int32", 40) % 90,), (values("bool", 5),), (values("float32"),)])
        cases.add("out", f"{name}.default", [(values("float32", 2, 3, 4, 5).to(memory_format=torch.channels_last),)])
    # What a sigmoid is made of overflows where it is less than 2^-128: the host's does not do so at another place.
    cases.add("out", "sigmoid.default", [(x.clamp(-80, None),)])
    # The host's pow is off by up to 1 unit.
    base, exponent = values("float32", 200).abs(), values("float32", 200, seed=2)
    integers = torch.arange(-15, 15).to(torch.float32)
    cases.add("Tensor_Tensor_out", "pow.Tensor_Tensor", [(base, exponent.clamp(-9, 9))])
    cases.add("Tensor_Tensor_out", "pow.Tensor_Tensor", [(values("float32", 30), integers)])
    cases.add("Tensor_Scalar_out", "pow.Tensor_Scalar", [(values("float32", 90),), (values("float16", 30),)], 2)
    cases.add("Tensor_Scalar_out", "pow.Tensor_Scalar", [(base,)], 0.4)
    cases.call("pow.Scalar_out", lambda e: torch.ops.aten.pow.Scalar(1.7, e), exponent)
    return cases


def division_bound(expected: Any, inputs: list[Any]) -> Any:
    """Return the bound of a division: the host multiplies by the inverse, three roundings instead of one, under 2
    units.
    """
    return 2 * np.spacing(np.abs(expected)).astype(np.float64)


def divisions_by_one_number() -> Cases:
    cases = Cases(division_bound)
    x = values("float32", 100).clamp(-1e30, 1e30)
    cases.add("Scalar_out", "div.Scalar", [(x,), (x.reshape(4, 25),)], 3)
    cases.add("out", "div.Tensor", [(x, values("float32", 1).clamp(1, 9)), (x, values("float32").clamp(0.1, 9))])
    return cases


ROUNDING = 2.0**-24


def gelu() -> Cases:
    """Return the bound of gelu. The firmware computes the exact one in double, as the portable kernel; the host in
    float.

    In float, erf(x) is off by 1 unit of at most 2^-24, by half of one for the rounding of its argument, and 1 + erf(x)
    is rounded by at most 2^-24; that times x / 2, and two more roundings of the result. With tanh, both compute in
    float. Its argument t is off by 4 roundings, which move tanh(t) by at most 4 * 2^-24 * t / cosh(t)^2 < 1.8 * 2^-24;
    newlib and glibc are off by 2.1 units: together less than 8 * 2^-24 for the two.
    """
    # Of -inf the optimised kernel makes NaN, the portable one 0.
    x = torch.nan_to_num(inputs(200), nan=float("nan"))

    def bound(roundings: float) -> Bound:
        return lambda expected, operands: (
            roundings * ROUNDING * 0.5 * np.abs(operands[0].astype(np.float64))
            + 2 * np.spacing(np.abs(expected)).astype(np.float64)
        )

    cases = Cases(bound(3))
    cases.add("out", "gelu.default", [(x,)])
    cases.bound = bound(8)
    cases.add("out", "gelu.default", [(x.clamp(-1e12, 1e12),)], approximate="tanh")
    return cases


def softmax_bound(expected: Any, operands: list[Any]) -> Any:
    """Return a relative bound: 1 unit for every exponential, n roundings for their sum, one for the quotient; twice."""
    return 2 * (operands[0].shape[-1] + 3) * 2 * ROUNDING * expected.astype(np.float64) + 2.0**-149


def log_softmax_bound(expected: Any, operands: list[Any]) -> Any:
    """Return an absolute bound: the sum's relative error is absolute in its logarithm; 1 unit for that; the
    differences.
    """
    size = operands[0].shape[-1]
    return 2 * (size + 2) * 2 * ROUNDING + 2 * np.spacing(np.float32(math.log(size))) + 4 * np.spacing(np.abs(expected))


def softmax() -> Cases:
    rows = torch.randn(7, 33, generator=torch.Generator().manual_seed(1)) * 8
    rows[3, 5] = float("nan")
    rows[4, 6] = float("-inf")
    rows[5] = 1.0
    cube = torch.randn(3, 9, 9, generator=torch.Generator().manual_seed(2))
    cases = Cases(softmax_bound)
    cases.add("out", "_softmax.default", [(rows,), (cube,)], -1, False)
    cases.add("out", "_softmax.default", [(cube,)], 1, False)
    cases.bound = log_softmax_bound
    cases.add("out", "_log_softmax.default", [(rows[:3],), (cube,)], -1, False)
    cases.add("out", "_log_softmax.default", [(cube,)], 1, False)
    return cases


GROUPS = (functions_of_other_types_and_layouts, divisions_by_one_number, gelu, softmax)


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_are_near_the_host(run_program: RunProgram, group: Callable[[], Cases]) -> None:
    check_cases(run_program, group())
