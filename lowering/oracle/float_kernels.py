"""Float operators computed as the firmware computes them, bit for bit: each operation of IEEE 754 in its order.

PyTorch adds in blocks and uses vectorised functions, so its last places are others. Functions such as exp and tanh are
computed in double and rounded once, here and in the firmware (firmware/runtime/kernels/rounded.h). An argument that a
function does not take (a type other than float32, say) is declined and left to PyTorch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from ethos_hil.lowering.oracle.exact_kernels import Kernel

F32, F64 = np.float32, np.float64
_Answer = TypeVar("_Answer")
_SQRT_HALF = math.sqrt(2) / 2
_GELU_BETA = F32(math.sqrt(2) * 1.12837916709551257390 * 0.5)
_GELU_KAPPA = F32(0.044715)


def is_float(*arrays: Any) -> bool:
    """Return whether all are arrays of float32."""
    return all(isinstance(array, np.ndarray) and array.dtype == np.float32 for array in arrays)


def of_float32(kernel: Callable[..., _Answer]) -> Callable[..., _Answer | None]:
    """Return a kernel that declines arrays of other types than float32, and computes with infinities and NaNs."""

    @functools.wraps(kernel)
    def declining(*arguments: Any, **options: Any) -> _Answer | None:
        if not is_float(*(argument for argument in arguments if isinstance(argument, np.ndarray))):
            return None
        with np.errstate(all="ignore"):
            return kernel(*arguments, **options)

    return declining


def round_to(function: Callable[..., Any], *arrays: Any) -> np.ndarray:
    """Return a function of doubles of float32 arguments, rounded to float32."""
    with np.errstate(all="ignore"):
        return np.asarray(function(*(np.asarray(array).astype(F64) for array in arrays))).astype(F32)


def exp(values: np.ndarray) -> np.ndarray:
    """Return e to these powers, rounded once."""
    return round_to(np.exp, values)


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)), each operation in float32."""
    with np.errstate(all="ignore"):
        return np.asarray(F32(1) / (F32(1) + exp(-values)))


def in_order(values: np.ndarray, axis: int, *, start: bool = False) -> np.ndarray:
    """Return sums along an axis, one element after the other; with `start`, to 0.0."""
    with np.errstate(all="ignore"):
        total = np.add.accumulate(values, axis=axis, dtype=values.dtype).take(-1, axis=axis)
        return np.asarray(total + values.dtype.type(0) if start else total)


def lines(values: np.ndarray, dimensions: list[int] | None) -> tuple[np.ndarray, list[int]]:
    """Return values with all reduced dimensions as one in front, the last fastest, and the reduced dimensions."""
    reduced = sorted({axis % values.ndim for axis in dimensions or range(values.ndim)}) if values.ndim else []
    kept = [axis for axis in range(values.ndim) if axis not in reduced]
    turned = values.transpose(*reduced, *kept) if values.ndim else values
    return turned.reshape(-1, *(values.shape[axis] for axis in kept)), reduced


def _of_one(function: Callable[..., Any]) -> Kernel:
    """A function of doubles; integers and bools become floats first."""

    def kernel(values: np.ndarray) -> np.ndarray | None:
        if values.dtype == np.float32 or values.dtype.kind in "iub":
            return round_to(function, values.astype(F32))
        return round_to(function, values.astype(F32)).astype(F32) if values.dtype == np.float16 else None

    return kernel


def _sigmoid(values: np.ndarray) -> np.ndarray | None:
    return sigmoid(values.astype(F32)) if values.dtype in (np.float32, np.float16) else None


@of_float32
def _rsqrt(values: np.ndarray) -> np.ndarray:
    return np.asarray((1.0 / np.sqrt(values).astype(F64)).astype(F32))


@of_float32
def _gelu(values: np.ndarray, approximate: str) -> np.ndarray:
    wide = values.astype(F64)
    if approximate == "tanh":
        inner = _GELU_BETA * (values + _GELU_KAPPA * (values * values * values))
        result = 0.5 * wide * (1.0 + round_to(np.tanh, inner).astype(F64))
    else:
        result = 0.5 * wide * (1.0 + np.vectorize(math.erf, otypes=[F64])(wide * _SQRT_HALF))
    ends = np.where(values < 0, F32(0), values)
    return np.where(np.isinf(values), ends, result.astype(F32))


@of_float32
def _pow(base: Any, exponent: Any) -> np.ndarray:
    return round_to(np.power, F32(base), F32(exponent))


def _atan2(left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    simple = all(side.dtype == np.float32 or side.dtype.kind in "iub" for side in (left, right))
    return round_to(np.arctan2, left.astype(F32), right.astype(F32)) if simple else None


@of_float32
def _elu(values: np.ndarray, alpha: float, scale: float, input_scale: float) -> np.ndarray:
    below = round_to(np.expm1, values * F32(input_scale)) * (F32(alpha) * F32(scale))
    return np.where(values <= 0, below, values * F32(scale))


@of_float32
def _logit(values: np.ndarray, epsilon: float | None) -> np.ndarray:
    if epsilon is not None:
        low, high = F32(epsilon), F32(1) - F32(epsilon)
        values = np.where(values < low, low, values)
        values = np.where(values > high, high, values)
    return round_to(np.log, values / (F32(1) - values))


@of_float32
def _glu(values: np.ndarray, dimension: int) -> np.ndarray:
    first, second = np.split(values, 2, axis=dimension)
    return np.asarray(first * sigmoid(second))


@of_float32
def _softmax(values: np.ndarray, dimension: int, _: bool, *, logarithm: bool = False) -> np.ndarray:
    turned = np.moveaxis(values, dimension, 0) if values.ndim else values.reshape(1)
    top = turned[0]
    for row in turned[1:]:
        top = np.where(row < top, top, row)
    above = turned - top
    terms = exp(above)
    total = in_order(terms, 0)
    result = above - round_to(np.log, total) if logarithm else terms / total
    return np.moveaxis(result, 0, dimension) if values.ndim else result.reshape(())


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the product of matrices, [..., M, K] and [..., K, N], each sum in the order of K."""
    total = np.zeros((*left.shape[:-1], right.shape[-1]), F32)
    with np.errstate(all="ignore"):
        for k in range(left.shape[-1]):
            total += left[..., :, k, None] * right[..., k, None, :]
    return total


@of_float32
def _addmm(added: np.ndarray, left: np.ndarray, right: np.ndarray, beta: float, alpha: float) -> np.ndarray:
    return np.asarray(product(left, right) * F32(alpha) + added * F32(beta))


@of_float32
def _linear(values: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    result = product(values.reshape(-1, values.shape[-1]), weight.T)
    result = result if bias is None else result * F32(1) + bias * F32(1)
    return result.reshape(*values.shape[:-1], weight.shape[0])


@of_float32
def _sum(values: np.ndarray, dimensions: list[int] | None, keep: bool, _: Any) -> np.ndarray | None:
    if not values.size:
        return None
    rows, reduced = lines(values, dimensions)
    total = in_order(rows, 0, start=reduced == [values.ndim - 1])
    return np.expand_dims(total, tuple(reduced)) if keep and reduced else total


@of_float32
def _mean_of_all(values: np.ndarray, _: Any) -> np.ndarray | None:
    if not values.size:
        return None
    return np.asarray(in_order(values.reshape(-1), 0, start=values.ndim == 1) / F32(values.size))


@of_float32
def _prod(values: np.ndarray, dimension: int, keep: bool, _: Any) -> np.ndarray | None:
    if not values.size or not values.ndim:
        return None
    result = np.multiply.accumulate(values, axis=dimension).take(-1, axis=dimension)
    return np.expand_dims(result, dimension) if keep else result


@of_float32
def _cumsum(values: np.ndarray, dimension: int, _: Any) -> np.ndarray | None:
    return np.add.accumulate(values, axis=dimension, dtype=F32) if values.ndim else None


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh, "erf": np.vectorize(math.erf, otypes=[F64]), "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "sin": np.sin,
    "sinh": np.sinh, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip

FLOATS: Mapping[str, Kernel] = {
    **{f"aten::{name}.out": _of_one(function) for name, function in _FUNCTIONS.items()},
    "aten::sigmoid.out": _sigmoid,
    "aten::rsqrt.out": _rsqrt,
    "aten::gelu.out": _gelu,
    "aten::pow.Tensor_Tensor_out": _pow,
    "aten::pow.Tensor_Scalar_out": _pow,
    "aten::pow.Scalar_out": _pow,
    "aten::atan2.out": _atan2,
    "aten::elu.out": _elu,
    "aten::logit.out": _logit,
    "aten::glu.out": _glu,
    "aten::_softmax.out": _softmax,
    "aten::_log_softmax.out": functools.partial(_softmax, logarithm=True),
    "aten::mm.out": of_float32(product),
    "aten::bmm.out": of_float32(product),
    "aten::addmm.out": _addmm,
    "aten::linear.out": _linear,
    "aten::sum.IntList_out": _sum,
    "aten::mean.dtype_out": _mean_of_all,
    "aten::prod.int_out": _prod,
    "aten::prod.out": lambda values, _: _prod(values.reshape(-1), 0, False, None),
    "aten::cumsum.out": _cumsum,
}
"""Kernels by the operator's full name."""
