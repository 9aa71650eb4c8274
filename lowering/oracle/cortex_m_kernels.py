"""Operators of ExecuTorch's Cortex-M backend, in whole numbers, as CMSIS-NN defines them.

The arithmetic is that of CMSIS-NN dbf45db (which ExecuTorch 1.5.1 builds) in its default configuration: sums of 32 bits
that wrap, and a scaled value that is rounded twice. Upstream's Python references
(`executorch.backends.cortex_m.ops.operators`) have the same answers, but for the softmax and the average pool, which
they compute in float, and ties of a quotient, which they round to even. A kernel takes what the call has without
its outputs, tensors in their logical shape, and returns the output.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_INT8 = (-128, 127)
_LEAST, _MOST = -(2**31), 2**31 - 1
_HEADROOM = 20
"""Bits that the operands of a sum are shifted up by before they are scaled."""
_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def _wrap(values: Any) -> np.ndarray:
    """Return whole numbers as 32 bits hold them, in 64."""
    return np.asarray(values, np.int64).astype(np.int32).astype(np.int64)


def _high_product(values: np.ndarray, factor: Any) -> np.ndarray:
    """Return values * factor / 2^31, rounded to nearest, a half upwards."""
    return _wrap((values * np.asarray(factor, np.int64) + (1 << 30)) >> 31)


def _quotient(values: np.ndarray, exponent: Any) -> np.ndarray:
    """Return values / 2^exponent, rounded to nearest, a half away from zero."""
    half = np.left_shift(np.int64(1), exponent) >> 1
    return np.sign(values) * ((np.abs(values) + half) >> exponent)


def requantise(values: np.ndarray, multiplier: Any, shift: Any) -> np.ndarray:
    """Return values * multiplier * 2^(shift - 31) as `arm_nn_requantize` rounds it: int64 with values of int32.

    Args:
        values: whole numbers that 32 bits hold.
        multiplier: int32, for all or one for each.
        shift: -31 to 30, for all or one for each.
    """
    shift = np.asarray(shift, np.int64)
    shifted = _wrap(np.left_shift(values.astype(np.int64), np.maximum(shift, 0)))
    return _quotient(_high_product(shifted, multiplier), np.maximum(-shift, 0))


def _clamped(values: np.ndarray, low: int = _INT8[0], high: int = _INT8[1]) -> np.ndarray:
    return np.clip(_wrap(values), low, high).astype(np.int8)


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int64)


def _add(
    a: np.ndarray, a_zero: int, a_multiplier: int, a_shift: int,
    b: np.ndarray, b_zero: int, b_multiplier: int, b_shift: int,
    zero: int, multiplier: int, shift: int, low: int, high: int,
) -> np.ndarray:  # fmt: skip
    first = requantise(_wrap((_wide(a) - a_zero) << _HEADROOM), a_multiplier, a_shift)
    second = requantise(_wrap((_wide(b) - b_zero) << _HEADROOM), b_multiplier, b_shift)
    return _clamped(requantise(_wrap(first + second), multiplier, shift) + zero, low, high)


def _mul(a: np.ndarray, a_zero: int, b: np.ndarray, b_zero: int, zero: int, multiplier: int, shift: int) -> np.ndarray:
    return _clamped(requantise((_wide(a) - a_zero) * (_wide(b) - b_zero), multiplier, shift) + zero)


def _div(a: np.ndarray, a_zero: int, b: np.ndarray, b_zero: int, zero: int, scale: float) -> np.ndarray:
    """Divide in float32; a half is rounded away from zero, and a quotient by 0 is 0."""
    dividend, divisor = ((_wide(x) - x_zero).astype(np.float32) for x, x_zero in ((a, a_zero), (b, b_zero)))
    quotient = np.divide(dividend, divisor, out=np.zeros_like(dividend), where=divisor != 0) * np.float32(scale)
    whole = np.trunc(quotient)
    away = whole + np.copysign(np.abs(quotient - whole) >= 0.5, quotient).astype(np.float32)  # both steps are exact
    limits = np.iinfo(a.dtype)
    return np.clip(away + np.float32(zero), limits.min, limits.max).astype(a.dtype)


def _activation(values: np.ndarray, table: np.ndarray) -> np.ndarray:
    return table.reshape(-1)[_wide(values) + 128]


def _linear(
    values: np.ndarray, weights: np.ndarray, bias: np.ndarray | None, kernel_sum: np.ndarray | None,
    input_offset: int, filter_offset: int, offset: int,
    multipliers: Sequence[int], shifts: Sequence[int], high: int, low: int,
) -> np.ndarray:  # fmt: skip
    """The kernel's sum holds the bias and what the input's offset adds."""
    start = bias if kernel_sum is None else kernel_sum
    moved = _wide(values) + (input_offset if kernel_sum is None else 0)
    sums = moved @ (_wide(weights) + filter_offset).T + (0 if start is None else _wide(start).reshape(-1))
    return _clamped(requantise(_wrap(sums), multipliers[0], shifts[0]) + offset, low, high)


def _batch_matmul(
    left: np.ndarray, left_offset: int, right: np.ndarray, right_offset: int,
    offset: int, multiplier: int, shift: int, _scratch: Any,
) -> np.ndarray:  # fmt: skip
    sums = (_wide(left) + left_offset) @ (_wide(right) + right_offset).transpose(0, 2, 1)
    return _clamped(requantise(_wrap(sums), multiplier, shift) + offset)


def _conv2d(
    values: np.ndarray, weights: np.ndarray, bias: np.ndarray | None,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    input_offset: int, offset: int, multipliers: np.ndarray, shifts: np.ndarray, low: int, high: int, _scratch: Any,
) -> np.ndarray:  # fmt: skip
    """Convolve [N, C, H, W] with weights [O, KH, KW, C of a group]."""
    outs, in_group = weights.shape[0], weights.shape[3]
    groups = values.shape[1] // in_group
    windows = _windows(_wide(values) + input_offset, weights.shape[1:3], stride, padding, dilation)
    kernels = _wide(weights).reshape(groups, outs // groups, *weights.shape[1:])
    split = windows.reshape(windows.shape[0], groups, in_group, *windows.shape[2:])
    sums = np.einsum("ngiyxkl,gokli->ngoyx", split, kernels)
    return _finish(sums.reshape(sums.shape[0], outs, *sums.shape[3:]), bias, offset, multipliers, shifts, low, high)


def _depthwise(
    values: np.ndarray, weights: np.ndarray, bias: np.ndarray | None,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], depth: int,
    input_offset: int, offset: int, multipliers: np.ndarray, shifts: np.ndarray, low: int, high: int, _scratch: Any,
) -> np.ndarray:  # fmt: skip
    """Convolve each channel of [1, C, H, W] with `depth` of the weights [1, KH, KW, O]."""
    moved = np.repeat(_wide(values) + input_offset, depth, axis=1)
    windows = _windows(moved, weights.shape[1:3], stride, padding, dilation)
    sums = np.einsum("ncyxkl,klc->ncyx", windows, _wide(weights)[0])
    return _finish(sums, bias, offset, multipliers, shifts, low, high)


def _transpose_conv2d(
    values: np.ndarray, weights: np.ndarray, bias: np.ndarray | None,
    stride: Sequence[int], padding: Sequence[int], output_padding: Sequence[int], dilation: Sequence[int],
    input_offset: int, offset: int, multipliers: np.ndarray, shifts: np.ndarray, low: int, high: int,
    _scratch: Any, _output_scratch: Any,
) -> np.ndarray:  # fmt: skip
    """Add each input of [N, C, H, W], times the weights [O, KH, KW, C], where it goes to."""
    moved, kernels = _wide(values) + input_offset, _wide(weights)
    spread = [
        (size - 1) * step + reach * (kernel - 1) + 1 + more
        for size, kernel, step, reach, more in zip(
            values.shape[2:], weights.shape[1:3], stride, dilation, output_padding, strict=True
        )
    ]
    sums = np.zeros((values.shape[0], weights.shape[0], *spread), np.int64)
    for ky, kx in itertools.product(range(weights.shape[1]), range(weights.shape[2])):
        rows = slice(ky * dilation[0], ky * dilation[0] + (values.shape[2] - 1) * stride[0] + 1, stride[0])
        columns = slice(kx * dilation[1], kx * dilation[1] + (values.shape[3] - 1) * stride[1] + 1, stride[1])
        sums[:, :, rows, columns] += np.einsum("nchw,oc->nohw", moved, kernels[:, ky, kx])
    inside = sums[:, :, padding[0] : spread[0] - padding[0], padding[1] : spread[1] - padding[1]]
    return _finish(inside, bias, offset, multipliers, shifts, low, high)


def _windows(
    values: np.ndarray, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """Return [N, C, OH, OW, KH, KW]: what a kernel meets in [N, C, H, W], which is continued with zeros."""
    padded = np.pad(values, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    reach = [step * (size - 1) + 1 for size, step in zip(kernel, dilation, strict=True)]
    all_of_them = np.lib.stride_tricks.sliding_window_view(padded, tuple(reach), (2, 3))  # type: ignore[call-overload]
    return np.asarray(all_of_them)[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def _finish(
    sums: np.ndarray, bias: np.ndarray | None, offset: int, multipliers: np.ndarray, shifts: np.ndarray,
    low: int, high: int,
) -> np.ndarray:  # fmt: skip
    def along(numbers: np.ndarray) -> np.ndarray:
        return _wide(numbers).reshape(-1, 1, 1)

    biased = _wrap(sums if bias is None else sums + along(bias))
    return _clamped(requantise(biased, along(multipliers), along(shifts)) + offset, low, high)


def _elements(
    values: np.ndarray, out: tuple[int, int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each element of a window: the value in all windows of [N, C, H, W], and whether it is inside."""
    height, width = values.shape[2:]
    top = np.arange(out[0])[:, None] * stride[0] - padding[0]
    left = np.arange(out[1])[None, :] * stride[1] - padding[1]
    for y, x in itertools.product(range(kernel[0]), range(kernel[1])):
        inside = (top + y >= 0) & (top + y < height) & (left + x >= 0) & (left + x < width)
        yield values[:, :, (top + y).clip(0, height - 1), (left + x).clip(0, width - 1)], inside


def _count(size: int, kernel: int, stride: int, padding: int, *, ceil_mode: bool) -> int:
    room = size + 2 * padding - kernel
    windows = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    return windows - (ceil_mode and (windows - 1) * stride >= size + padding)


def _average_pool(
    values: np.ndarray, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool,
    *_: Any,
) -> np.ndarray:  # fmt: skip
    """Average what is inside the input, rounded half away from zero. Scale and zero point are those of both sides."""
    out = (
        _count(values.shape[2], kernel[0], stride[0], padding[0], ceil_mode=ceil_mode),
        _count(values.shape[3], kernel[1], stride[1], padding[1], ceil_mode=ceil_mode),
    )
    totals, counts = np.zeros((*values.shape[:2], *out), np.int64), np.zeros(out, np.int64)
    for value, inside in _elements(values, out, kernel, stride, padding):
        totals += np.where(inside, value, 0)
        counts += inside
    return _clamped(np.sign(totals) * ((np.abs(totals) + counts // 2) // counts))


def _max_pool(
    values: np.ndarray, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    _dilation: Any, _ceil_mode: Any, _in_zero: int, _out_zero: int, low: int, high: int,
) -> np.ndarray:  # fmt: skip
    out = (
        _count(values.shape[2], kernel[0], stride[0], padding[0], ceil_mode=False),
        _count(values.shape[3], kernel[1], stride[1], padding[1], ceil_mode=False),
    )
    best = np.full((*values.shape[:2], *out), _INT8[0], np.int64)
    for value, inside in _elements(values, out, kernel, stride, padding):
        best = np.maximum(best, np.where(inside, value, _INT8[0]))
    return _clamped(best, low, high)


_EXPONENT_BITS, _SUM_SHIFT = 26, 12
_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""e to -1/4, -1/2, -1, ... with 31 fraction bits (gemmlowp, fixedpoint/fixedpoint.h)."""


def _fraction_product(a: Any, b: Any) -> np.ndarray:
    return np.minimum((np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 30)) >> 31, _MOST)


def _exponential(x: np.ndarray) -> np.ndarray:
    """Return e^x with 31 fraction bits, as gemmlowp's exp_on_negative_values; x <= 0 has 26."""
    quarter = 1 << (_EXPONENT_BITS - 2)
    below = (x & (quarter - 1)) - quarter
    middle = (below << (31 - _EXPONENT_BITS)) + (1 << 28)
    square = _fraction_product(middle, middle)
    higher = _quotient(_fraction_product(square, square), 2) + _fraction_product(square, middle)
    series = middle + _quotient(_fraction_product(higher, 715827883) + square, 1)
    result = 1895147668 + _fraction_product(1895147668, series)
    for bit, power in enumerate(_POWERS):
        chosen = ((below - x) >> (_EXPONENT_BITS - 2 + bit)) & 1
        result = np.where(chosen, _fraction_product(result, power), result)
    return np.where(x == 0, _MOST, result)


def _inverse_of_one_plus(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + x) as gemmlowp's one_over_one_plus_x_for_x_in_0_1; both have 31 fraction bits."""
    total = x + _MOST
    half = np.sign(total) * ((np.abs(total) + 1) // 2)
    inverse = 1515870810 + _fraction_product(half, -1010580540)
    for _ in range(3):
        error = (1 << 29) - _fraction_product(half, inverse)
        inverse = _wrap(inverse + np.clip(_fraction_product(inverse, error) << 2, _LEAST, _MOST))
    return np.clip(inverse << 1, _LEAST, _MOST)


def _softmax(
    values: np.ndarray, dimension: int, _in_zero: int, _out_zero: int, multiplier: int, shift: int, least: int
) -> np.ndarray:
    differences = _wide(values) - values.max(axis=dimension, keepdims=True)
    powers = _exponential(_fraction_product(_wrap(differences << shift), multiplier))
    counted = differences >= least
    sums = _wrap(np.where(counted, _quotient(powers, _SUM_SHIFT), 0).sum(axis=dimension, keepdims=True))
    unsigned = np.where(sums < 0, sums + 2**32, sums)
    headroom = 32 - np.ceil(np.log2(unsigned + 1)).astype(np.int64)  # below 2^53, so that log2 is exact enough
    excess = _wrap(np.where(sums > 0, sums << headroom, 0) - 2**31)
    shares = _quotient(_fraction_product(_inverse_of_one_plus(excess), powers), _SUM_SHIFT - headroom + 31 - 8)
    return _clamped(np.where(counted, shares, 0) - 128)


def _transpose(values: np.ndarray, order: Sequence[int]) -> np.ndarray:
    return values.transpose(order)


def pad(
    values: np.ndarray, before: Sequence[int], after: Sequence[int], value: int, *, channels_last: bool
) -> np.ndarray:
    """Compute cortex_m::pad.out, whose widths are in the order of memory, for the last of four dimensions."""
    widths = [(before[at], after[at]) for at in (_TO_NCHW if channels_last else range(4))]
    return np.pad(values, widths[4 - values.ndim :], constant_values=value)


def _of_nhwc(kernel: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a kernel of [N, C, H, W] for [N, H, W, C]."""
    return lambda values, *others: kernel(values.transpose(_TO_NCHW), *others).transpose(_TO_NHWC)


_Kernel = Callable[..., np.ndarray]
_IMAGES: Mapping[str, _Kernel] = {
    "conv2d": _conv2d,
    "depthwise_conv2d": _depthwise,
    "transpose_conv2d": _transpose_conv2d,
    "avg_pool2d": _average_pool,
    "max_pool2d": _max_pool,
}

CORTEX_M: Mapping[str, _Kernel] = {
    "cortex_m::maximum.out": np.maximum,
    "cortex_m::minimum.out": np.minimum,
    "cortex_m::quantized_activation.out": _activation,
    "cortex_m::quantized_add.out": _add,
    "cortex_m::quantized_batch_matmul.out": _batch_matmul,
    "cortex_m::quantized_div.out": _div,
    "cortex_m::quantized_linear.out": _linear,
    "cortex_m::quantized_mul.out": _mul,
    "cortex_m::softmax.out": _softmax,
    "cortex_m::transpose.out": _transpose,
    **{f"cortex_m::quantized_{name}.out": kernel for name, kernel in _IMAGES.items()},
    **{f"cortex_m::quantized_{name}_nhwc.out": _of_nhwc(kernel) for name, kernel in _IMAGES.items()},
}
"""Kernels by the operator's full name. `pad` has a further argument."""
PAD = "cortex_m::pad.out"


def answer_of(operator: str, arguments: Sequence[Any]) -> np.ndarray:
    """Return the answer to a call of `torch.ops`, whose arguments are tensors, numbers and lists."""
    values = [value.numpy() if hasattr(value, "numpy") else value for value in arguments]
    if operator != PAD:
        return CORTEX_M[operator](*values)
    image, (_, before, after, value) = arguments[0], values
    last = image.dim() == 4 and (
        tuple(image.dim_order()) == (0, 2, 3, 1) or 1 in (image.shape[1], max(image.shape[2:]))
    )
    return pad(values[0], before, after, value, channels_last=last)
