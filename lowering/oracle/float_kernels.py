"""Float operators, layers and conversions as the firmware computes them, bit for bit: IEEE 754's operations in order.

PyTorch adds in blocks and uses vectorised functions, so its last places are others. Functions such as exp and tanh are
computed in double and rounded once, here and in the firmware (firmware/runtime/kernels/rounded.h). An argument that a
function does not take (a type other than float32, say) is declined and left to PyTorch.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
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


@of_float32
def _prod(values: np.ndarray, dimension: int, keep: bool, _: Any) -> np.ndarray | None:
    if not values.size or not values.ndim:
        return None
    result = np.multiply.accumulate(values, axis=dimension).take(-1, axis=dimension)
    return np.expand_dims(result, dimension) if keep else result


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
def _cumsum(values: np.ndarray, dimension: int, _: Any) -> np.ndarray | None:
    return np.add.accumulate(values, axis=dimension, dtype=F32) if values.ndim else None


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cos": np.cos, "erf": np.vectorize(math.erf, otypes=[F64]), "exp": np.exp, "log": np.log, "log10": np.log10,
    "log2": np.log2,    "sin": np.sin, "tanh": np.tanh,
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
    "aten::prod.int_out": _prod,
    "aten::prod.out": lambda values, _: _prod(values.reshape(-1), 0, False, None),
    "aten::_softmax.out": _softmax,
    "aten::_log_softmax.out": functools.partial(_softmax, logarithm=True),
    "aten::mm.out": of_float32(product),
    "aten::bmm.out": of_float32(product),
    "aten::addmm.out": _addmm,
    "aten::linear.out": _linear,
    "aten::sum.IntList_out": _sum,
    "aten::mean.dtype_out": _mean_of_all,
    "aten::cumsum.out": _cumsum,
}
"""Kernels by the operator's full name."""

Layer = Callable[..., tuple[np.ndarray, ...] | None]
"""Takes the call's arguments without its outputs; returns all outputs, or None to decline."""


def _item(items: Sequence[int], axis: int, default: int) -> int:
    """Item `axis` of a list, which may have one item for all axes, or none."""
    return int(items[axis] if axis < len(items) else items[0]) if items else default


def _reach(count: int, size: int, stride: int, shift: int) -> tuple[slice, slice]:
    """Of positions 0 to `count`, those whose place stride * at + shift is among `size`; and these places."""
    first = max(0, -(shift // stride))
    last = min(count - 1, (size - 1 - shift) // stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    return slice(first, last + 1), slice(first * stride + shift, last * stride + shift + 1, stride)


@of_float32
def _convolution(
    values: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> np.ndarray | None:
    """Sum up in the order of input channels, then kernel positions; transposed, in the order of input positions."""
    axes = values.ndim - 2
    steps, pads, gaps = (
        [_item(items, axis, default) for axis in range(axes)]
        for items, default in ((stride, 1), (padding, 0), (dilation, 1))
    )
    more = [_item(output_padding, axis, 0) for axis in range(axes)]
    reach = [gaps[axis] * (weight.shape[2 + axis] - 1) + 1 for axis in range(axes)]
    sizes = values.shape[2:]
    if transposed:
        out = [(sizes[a] - 1) * steps[a] - 2 * pads[a] + reach[a] + more[a] for a in range(axes)]
    else:
        out = [(sizes[a] + 2 * pads[a] - reach[a]) // steps[a] + 1 for a in range(axes)]
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    start = np.zeros(channels, F32) if bias is None or not transposed else bias
    total = np.empty((values.shape[0], channels, *out), F32)
    total[...] = start.reshape(-1, *[1] * axes)
    of_group, per_group = values.shape[1] // groups, channels // groups
    positions = list(itertools.product(*(range(size) for size in weight.shape[2:])))
    for group in range(groups):
        mine = slice(group * per_group, (group + 1) * per_group)
        inputs = range(group * of_group, (group + 1) * of_group)
        order = (
            [(place, channel) for place in reversed(positions) for channel in inputs]
            if transposed
            else [(place, channel) for channel in inputs for place in positions]
        )
        for place, channel in order:
            shift = [gaps[axis] * place[axis] - pads[axis] for axis in range(axes)]
            counts, ends = (sizes, out) if transposed else (out, sizes)
            reached = [_reach(counts[a], ends[a], steps[a], shift[a]) for a in range(axes)]
            near, far = (tuple(pair[side] for pair in reached) for side in (0, 1))
            taken, given = (near, far) if transposed else (far, near)
            at: tuple[Any, ...] = (channel, slice(None)) if transposed else (mine, channel - group * of_group)
            column = weight[(*at, *place)]
            terms = values[(slice(None), slice(channel, channel + 1), *taken)] * column.reshape(-1, *[1] * axes)
            total[(slice(None), mine, *given)] += terms
    if bias is not None and not transposed:
        total += bias.reshape(-1, *[1] * axes)
    return total


@of_float32
def _layer_norm(
    values: np.ndarray, shape: Sequence[int], weight: np.ndarray | None, bias: np.ndarray | None, epsilon: float
) -> tuple[np.ndarray, ...] | None:
    rows = values.reshape(-1, int(np.prod(shape)))
    width = F32(rows.shape[1])
    mean = in_order(rows, 1, start=True) / width
    variance = in_order(rows * rows, 1, start=True) / width - mean * mean
    deviation = np.sqrt(variance + F32(epsilon))
    result = (rows - mean[:, None]) / deviation[:, None]
    result = result * (F32(1) if weight is None else weight.reshape(-1))
    result = result + (F32(0) if bias is None else bias.reshape(-1))
    inverse = (1.0 / deviation.astype(F64)).astype(F32)
    return result.reshape(values.shape), mean, inverse


def _normalise(
    values: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, mean: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    shape = (-1, *[1] * (values.ndim - 2))
    with np.errstate(all="ignore"):
        result = (values - mean.reshape(shape)) * scale.reshape(shape)
        result = result * (F32(1) if weight is None else weight.reshape(shape))
        return np.asarray(result + (F32(0) if bias is None else bias.reshape(shape)))


@of_float32
def _batch_norm_no_stats(
    values: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, _: bool, momentum: float, epsilon: float
) -> tuple[np.ndarray, ...] | None:
    """Sums in double, in the order of a contiguous memory."""
    rows = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1).astype(F64)
    mean = in_order(rows, 1, start=True) / rows.shape[1]
    apart = rows - mean[:, None]
    scale = (1.0 / np.sqrt(in_order(apart * apart, 1, start=True) / rows.shape[1] + epsilon)).astype(F32)
    return _normalise(values, weight, bias, mean.astype(F32), scale), mean.astype(F32), scale


@of_float32
def _adaptive_average(values: np.ndarray, size: Sequence[int]) -> np.ndarray | None:
    out = np.empty((*values.shape[:-2], *size), F32)
    for y, x in itertools.product(range(size[0]), range(size[1])):
        (top, bottom), (left, right) = (
            (at * length // count, -(-(at + 1) * length // count))
            for at, count, length in ((y, size[0], values.shape[-2]), (x, size[1], values.shape[-1]))
        )
        window = values[..., top:bottom, left:right].reshape(*values.shape[:-2], -1)
        with np.errstate(all="ignore"):
            out[..., y, x] = in_order(window, -1, start=True) / F32(window.shape[-1])
    return out


def _per_channel(array: np.ndarray, rank: int, axis: int) -> np.ndarray:
    return array.reshape([-1 if at == axis % rank else 1 for at in range(rank)])


def _dequantise_channels(
    codes: np.ndarray, scales: np.ndarray, zero_points: np.ndarray | None, axis: int, *_: Any
) -> np.ndarray:
    scale = _per_channel(scales.astype(F32), codes.ndim, axis)
    zeros = 0 if zero_points is None else _per_channel(zero_points.astype(np.int64), codes.ndim, axis)
    return np.asarray((codes.astype(np.int64) - zeros).astype(F32) * scale)


@of_float32
def _grid_sample(values: np.ndarray, grid: np.ndarray, mode: int, padding: int, corners: bool) -> np.ndarray | None:
    height, width = values.shape[2:]
    batch = np.arange(values.shape[0])[:, None, None]

    unit = F32(1)

    def reflect(at: np.ndarray, low: int, high: int) -> np.ndarray:
        if low == high:
            return at * F32(0)
        least, span = F32(low) / F32(2), F32(high - low) / F32(2)
        at = np.abs(at - least)
        extra = np.fmod(at, span)
        flipped = np.fmod(np.floor(at / span), F32(2)) != 0
        return np.where(flipped, span - extra + least, extra + least)

    def place(at: np.ndarray, size: int) -> np.ndarray:
        at = (at + unit) / F32(2) * (F32(size) - unit) if corners else ((at + unit) * F32(size) - unit) / F32(2)
        if padding == 2:
            at = reflect(at, 0, 2 * (size - 1)) if corners else reflect(at, -1, 2 * size - 1)
        return np.nan_to_num(at, nan=0.0, posinf=np.inf, neginf=-np.inf).clip(0, F32(size - 1)) if padding else at

    def pixel(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        out = (y < 0) | (y >= height) | (x < 0) | (x >= width)
        values_there = values[batch, :, y.clip(0, height - 1), x.clip(0, width - 1)]  # [N, H, W, C]
        return np.where(out[..., None], F32(0), values_there)

    def whole(at: np.ndarray) -> np.ndarray:
        return np.nan_to_num(at.astype(F64), nan=0.0).clip(-(2.0**40), 2.0**40).astype(np.int64)

    x, y = place(grid[..., 0], width), place(grid[..., 1], height)
    if mode == 1:
        return np.moveaxis(pixel(whole(np.rint(y)), whole(np.rint(x))), -1, 1)
    top, left = whole(np.floor(y)), whole(np.floor(x))
    down, right = y - top.astype(F32), x - left.astype(F32)
    weights = ((unit - right) * (unit - down), right * (unit - down), (unit - right) * down, right * down)
    corners_at = ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1))
    terms = [pixel(*at) * weight[..., None] for at, weight in zip(corners_at, weights, strict=True)]
    return np.moveaxis(terms[0] + terms[1] + terms[2] + terms[3], -1, 1)


LAYERS: Mapping[str, Kernel] = {
    "aten::convolution.out": _convolution,
    "aten::_adaptive_avg_pool2d.out": _adaptive_average,
    "aten::grid_sampler_2d.out": _grid_sample,
    "quantized_decomposed::dequantize_per_channel.out": _dequantise_channels,
}
"""Kernels with one output, by the operator's full name."""
SEVERAL: Mapping[str, Layer] = {
    "aten::native_layer_norm.out": _layer_norm,
    "aten::_native_batch_norm_legit.no_stats_out": _batch_norm_no_stats,
}
"""Kernels with several outputs."""
