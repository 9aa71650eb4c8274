"""Layers and conversions computed as the firmware computes them, bit for bit (see `float_kernels`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ethos_hil.lowering.oracle.exact_kernels import Kernel
from ethos_hil.lowering.oracle.float_kernels import F32, F64, in_order, is_float, lines, of_float32

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


@of_float32
def _group_norm(
    values: np.ndarray,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    batch: int,
    channels: int,
    plane: int,
    groups: int,
    epsilon: float,
) -> tuple[np.ndarray, ...] | None:
    runs = values.reshape(batch * groups, -1)
    count = F64(runs.shape[1])
    mean = in_order(runs, 1, start=True).astype(F64) / count
    variance = in_order(runs * runs, 1, start=True).astype(F64) / count - mean * mean
    inverse = 1.0 / np.sqrt(variance + epsilon)
    shape = (batch * groups, channels // groups, 1)
    wide = runs.reshape(*shape[:2], plane).astype(F64)
    per_run = mean.reshape(-1, 1, 1), inverse.reshape(-1, 1, 1)
    if weight is None and bias is None:
        result = (wide - per_run[0]) * per_run[1]
    else:
        weights = np.ones(channels) if weight is None else weight.astype(F64)
        biases = np.zeros(channels) if bias is None else bias.astype(F64)
        scale = per_run[1] * np.tile(weights.reshape(groups, -1), (batch, 1)).reshape(shape)
        result = scale * wide + (-scale * per_run[0] + np.tile(biases.reshape(groups, -1), (batch, 1)).reshape(shape))
    shape_of_groups = (batch, groups)
    return (
        result.astype(F32).reshape(values.shape),
        mean.astype(F32).reshape(shape_of_groups),
        inverse.astype(F32).reshape(shape_of_groups),
    )


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
def _spread(
    values: np.ndarray, dimensions: list[int] | None, correction: float | None, keep: bool
) -> tuple[np.ndarray, ...] | None:
    """Variance and mean: a float32 sum for each."""
    if not values.size:
        return None
    rows, reduced = lines(values, dimensions)
    number = rows.shape[0]
    denominator = number - (1.0 if correction is None else float(correction))
    mean = in_order(rows, 0) / F32(number)
    squares = in_order((rows - mean) * (rows - mean), 0).astype(F64)
    variance = np.asarray(squares / denominator if denominator > 0 else np.full_like(squares, np.nan)).astype(F32)
    mean = np.asarray(mean if denominator > 0 else np.full_like(mean, np.nan))
    if keep and reduced:
        return np.expand_dims(variance, tuple(reduced)), np.expand_dims(mean, tuple(reduced))
    return variance, mean


def _variance(values: np.ndarray, dimensions: list[int] | None, correction: Any, keep: bool) -> np.ndarray | None:
    spread = _spread(values, dimensions, correction, keep)
    return None if spread is None else spread[0]


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


def _quantise_channels(
    values: np.ndarray, scales: np.ndarray, zero_points: np.ndarray, axis: int, low: int, high: int, _: Any
) -> np.ndarray | None:
    if not is_float(values):
        return None
    inverse = F32(1) / _per_channel(scales.astype(F32), values.ndim, axis)
    with np.errstate(all="ignore"):
        steps = _per_channel(zero_points.astype(F32), values.ndim, axis) + np.rint(values * inverse)
    return np.clip(np.nan_to_num(steps.astype(F64), nan=low, posinf=high, neginf=low), low, high)


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
    "aten::var.correction_out": _variance,
    "aten::var.out": _variance,
    "aten::_adaptive_avg_pool2d.out": _adaptive_average,
    "aten::grid_sampler_2d.out": _grid_sample,
    "quantized_decomposed::dequantize_per_channel.out": _dequantise_channels,
    "quantized_decomposed::quantize_per_channel.out": _quantise_channels,
}
"""Kernels with one output, by the operator's full name."""
SEVERAL: Mapping[str, Layer] = {
    "aten::native_layer_norm.out": _layer_norm,
    "aten::native_group_norm.out": _group_norm,
    "aten::_native_batch_norm_legit.no_stats_out": _batch_norm_no_stats,
    "aten::var_mean.correction_out": _spread,
}
"""Kernels with several outputs."""
