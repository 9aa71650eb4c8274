"""Rules of the operators that compute each output element from many: products and sums, pools and reductions.

The error of a sum of n products, in any order, is at most n roundings of the sum of the products' magnitudes. The TOSA
1.0 specification doubles that for other modes of rounding ("Dot product accuracy requirements", `local_bound`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from tosa.ResizeMode import ResizeMode

from ethos_hil.lowering.oracle.bounds.value import FLOAT32_UNIT, RANGES, STEPS_OF_FLOAT32, Bounded, TosaOperation

Array = np.ndarray
Bilinear = Callable[[Array, Array], Array]
FOLDED = 4
"""Roundings of a weight or bias into which the compiler folded a batch norm: the variance's reciprocal root (2), its
product with the norm's weight, and the product with the convolution's weight. A folded bias is a difference; its
roundings are relative to the numbers subtracted, and the largest bias stands for these."""


def _roundings(operation: TosaOperation, terms: int) -> float:
    """Return a sum's error in roundings of its magnitudes: one per term, or their root where they are random."""
    return terms if operation.rounding.random is None else terms**0.5


def _products(
    operation: TosaOperation, a: Bounded, b: Bounded, terms: int, combine: Bilinear, folded: int = 0
) -> Bounded:
    """Return sums of `terms` products of an element of a and one of b, added up by `combine`."""
    value = combine(a.value.astype(float), b.value.astype(float))
    size = combine(np.abs(a.value).astype(float), np.abs(b.value).astype(float))
    largest = size if a.is_exact and b.is_exact else combine(a.magnitude, b.magnitude)
    passed = _error_or_zero(largest - size, a, b)
    if operation.takes_floats:
        return operation.float_result(
            value, passed, (2 * _roundings(operation, terms) + folded) * operation.unit * largest
        )
    return operation.integer_result(
        _integer_sums(value, operation),
        passed,
        (_roundings(operation, terms) + STEPS_OF_FLOAT32) * FLOAT32_UNIT * largest,
    )


def _integer_sums(value: Array, operation: TosaOperation) -> Array:
    """Return sums of integers, which float64 holds exactly, as integers; with random roundings as they are."""
    return value if operation.rounding.random is not None else np.rint(value).astype(np.int64)


def _error_or_zero(error: Array, *inputs: Bounded) -> Array:
    """Return `error`, but 0 where all inputs are exact, even if it is NaN, and infinity where it is NaN otherwise."""
    return np.zeros(error.shape) if all(item.is_exact for item in inputs) else np.where(np.isnan(error), np.inf, error)


def _centre(x: Bounded, zero: Bounded) -> Bounded:
    """Return the tensor minus its zero point, which is 0 for a float tensor."""
    return Bounded(x.value - zero.number, x.error, x.scaled)


def _matmul(operation: TosaOperation, a: Bounded, b: Bounded, a_zero: Bounded, b_zero: Bounded) -> Bounded:
    return _products(operation, _centre(a, a_zero), _centre(b, b_zero), a.value.shape[-1], np.matmul)


def _add_bias(operation: TosaOperation, sums: Bounded, bias: Bounded) -> Bounded:
    value, passed = sums.value + bias.value, sums.error + bias.error
    if not operation.takes_floats:
        return operation.integer_result(value, passed, STEPS_OF_FLOAT32 * FLOAT32_UNIT * np.abs(bias.value))
    folded = FOLDED * np.max(np.abs(bias.value), initial=0.0)
    own = 2 * (np.abs(sums.value) + sums.error + np.abs(bias.value)) + folded
    return operation.float_result(value, passed, operation.unit * own)


def _windows(shape: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Iterator:
    """Yield each position in the kernel, with the slices of a padded input that it reads in all windows."""
    counts = [(size - (k - 1) * d - 1) // s + 1 for size, k, s, d in zip(shape, kernel, stride, dilation, strict=True)]
    for position in np.ndindex(*kernel):
        yield (
            position,
            tuple(
                slice(p * d, p * d + (count - 1) * s + 1, s)
                for p, d, s, count in zip(position, dilation, stride, counts, strict=True)
            ),
        )


def _pad(array: Array, pads: Sequence[int], filler: float = 0.0) -> Array:
    widths = [(0, 0), *np.reshape(pads, (-1, 2)).tolist(), (0, 0)]
    return np.pad(array, widths, constant_values=filler)


def _convolution(
    operation: TosaOperation, x: Bounded, weight: Bounded, bias: Bounded, x_zero: Bounded, weight_zero: Bounded
) -> Bounded:
    x, weight = _centre(x, x_zero), _centre(weight, weight_zero)
    pads, stride, dilation = (operation.vector(name) for name in ("Pad", "Stride", "Dilation"))
    depthwise = operation.op == "DEPTHWISE_CONV2D"
    kernel = weight.value.shape[:2] if depthwise else weight.value.shape[1:-1]

    def combine(values: Array, weights: Array) -> Array:
        values = _pad(values, pads)
        total: Array = np.zeros(())
        for position, part in _windows(values.shape[1:-1], kernel, stride, dilation):
            met = values[:, *part, :]
            if depthwise:
                product = met[..., None] * weights[position]
                total = total + product.reshape(*product.shape[:-2], -1)
            else:
                total = total + met @ weights[:, *position, :].T
        return total

    terms = int(np.prod(kernel)) * (1 if depthwise else x.value.shape[-1])
    return _add_bias(operation, _products(operation, x, weight, terms, combine, FOLDED), bias)


def _transposed_convolution(
    operation: TosaOperation, x: Bounded, weight: Bounded, bias: Bounded, x_zero: Bounded, weight_zero: Bounded
) -> Bounded:
    x, weight = _centre(x, x_zero), _centre(weight, weight_zero)
    stride, pads = operation.vector("Stride"), operation.vector("OutPad")
    outputs, *kernel, inputs = weight.value.shape
    batch, height, width, _ = x.value.shape
    full = [(size - 1) * s + k for size, s, k in zip((height, width), stride, kernel, strict=True)]

    def combine(values: Array, weights: Array) -> Array:
        total = np.zeros((batch, *full, outputs))
        for y, left in np.ndindex(*kernel):
            rows, columns = (
                slice(at, at + (size - 1) * step + 1, step)
                for at, size, step in zip((y, left), (height, width), stride, strict=True)
            )
            total[:, rows, columns] += values @ weights[:, y, left, :].T
        grown = np.pad(total, [(0, 0), *np.maximum(pads, 0).reshape(2, 2).tolist(), (0, 0)])
        cut = [
            slice(max(-first, 0), size - max(-last, 0))
            for (first, last), size in zip(pads.reshape(2, 2).tolist(), grown.shape[1:3], strict=True)
        ]
        return grown[:, *cut, :]

    sums = _products(operation, x, weight, int(np.prod(kernel)) * inputs, combine, FOLDED)
    return _add_bias(operation, sums, bias)


def _average(operation: TosaOperation, x: Bounded, x_zero: Bounded, out_zero: Bounded) -> Bounded:
    x = _centre(x, x_zero)
    kernel, stride, pads = (operation.vector(name) for name in ("Kernel", "Stride", "Pad"))

    def total(values: Array) -> Array:
        padded = _pad(values.astype(float), pads)
        return sum(padded[:, *part, :] for _, part in _windows(padded.shape[1:-1], kernel, stride, (1, 1)))  # type: ignore

    count = total(np.ones((1, *x.value.shape[1:-1], 1)))
    value, size, passed = total(x.value), total(x.magnitude) / count, total(x.error) / count
    terms = int(np.prod(kernel))
    if operation.takes_floats:
        return operation.float_result(value / count, passed, 2 * _roundings(operation, terms) * operation.unit * size)
    bits = np.ceil(np.log2(count)).astype(np.int64)  # reciprocal_scale of the specification
    multiplier = (((1 << 30) + 1) << bits) // count.astype(np.int64)
    shift, zero = 30 + bits, int(out_zero.number)
    rounded = (np.rint(value).astype(np.int64) * multiplier + (np.int64(1) << (shift - 1))) >> shift
    doubt = passed + (_roundings(operation, terms) + STEPS_OF_FLOAT32) * FLOAT32_UNIT * size
    return operation.snap(np.clip(rounded + zero, *RANGES[operation.dtype]), value / count, doubt, zero)


def _max_pool(operation: TosaOperation, x: Bounded) -> Bounded:
    kernel, stride, pads = (operation.vector(name) for name in ("Kernel", "Stride", "Pad"))

    def largest(values: Array) -> Array:
        padded = _pad(values.astype(float), pads, -np.inf)
        parts = (padded[:, *part, :] for _, part in _windows(padded.shape[1:-1], kernel, stride, (1, 1)))
        return np.maximum.reduce(list(parts))

    value = largest(x.value)
    error = _error_or_zero(np.maximum(largest(x.high) - value, value - largest(x.low)), x)
    return Bounded(value.astype(x.value.dtype), error, x.scaled)


def _sum(operation: TosaOperation, x: Bounded) -> Bounded:
    axis = operation.scalar("Axis")
    terms, value = x.value.shape[axis], x.value.sum(axis, keepdims=True)
    size, passed = x.magnitude.sum(axis, keepdims=True), x.error.sum(axis, keepdims=True)
    if operation.takes_floats:
        return operation.float_result(value, passed, 2 * _roundings(operation, terms) * operation.unit * size)
    if not x.scaled:
        return Bounded(value, passed, scaled=False)
    return operation.integer_result(
        value, passed, (_roundings(operation, terms) + STEPS_OF_FLOAT32) * FLOAT32_UNIT * size
    )


def _product(operation: TosaOperation, x: Bounded) -> Bounded:
    axis = operation.scalar("Axis")
    value, size = x.value.prod(axis, keepdims=True), x.magnitude.prod(axis, keepdims=True)
    passed = _error_or_zero(size - np.abs(x.value).prod(axis, keepdims=True), x)
    return operation.float_result(value, passed, size * np.expm1(x.value.shape[axis] * np.log1p(operation.unit)))


def _reduction(function: Callable[..., Array]) -> Callable[[TosaOperation, Bounded], Bounded]:
    """Return the rule of a maximum or minimum, or of any or all of truth values: monotone in every element."""

    def rule(operation: TosaOperation, x: Bounded) -> Bounded:
        value, least, most = (
            function(array, axis=operation.scalar("Axis"), keepdims=True) for array in (x.value, x.low, x.high)
        )
        if value.dtype == np.bool_:
            return Bounded(value, (least != most).astype(float), scaled=False)
        return Bounded(value, _error_or_zero(np.maximum(most - value, value - least), x), x.scaled)

    return rule


def _argmax(operation: TosaOperation, x: Bounded) -> Bounded:
    """Bound ARGMAX: where several elements may be the largest, the position may be any of theirs."""
    axis = operation.scalar("Axis")
    value = np.argmax(x.value, axis)
    place = np.arange(x.value.shape[axis]).reshape([-1 if at == axis else 1 for at in range(x.value.ndim)])
    at_least = np.take_along_axis(x.low, np.expand_dims(value, axis), axis)
    candidate = (x.high >= at_least) & (x.error + np.take_along_axis(x.error, np.expand_dims(value, axis), axis) > 0)
    distance = np.where(candidate, np.abs(place - np.expand_dims(value, axis)), 0).max(axis)
    return Bounded(value.astype(np.int64), distance.astype(float), scaled=False)


def _resize(operation: TosaOperation, x: Bounded, scale: Bounded, offset: Bounded, _border: Bounded) -> Bounded:
    """Bound RESIZE as products with a matrix for each axis: a row for each output has the weight of each input."""
    nearest = operation.scalar("Mode") == ResizeMode.NEAREST
    matrices = []
    for axis in (0, 1):
        outputs, inputs = operation.output.shape[axis + 1], x.value.shape[axis + 1]
        upper, lower = (int(part) for part in scale.value[2 * axis : 2 * axis + 2])
        place = np.arange(outputs) * lower + int(offset.value[axis])
        below, share = place // upper, place % upper
        ends = np.maximum(below, 0), np.minimum(below + 1, inputs - 1)
        matrix = np.zeros((outputs, inputs))
        if nearest:
            matrix[np.arange(outputs), np.where(2 * share >= upper, ends[1], ends[0])] = 1
        else:
            unit = 1.0 if operation.takes_floats else upper
            np.add.at(matrix, (np.arange(outputs), ends[0]), (upper - share) * unit / upper)
            np.add.at(matrix, (np.arange(outputs), ends[1]), share * unit / upper)
        matrices.append(matrix)

    def interpolate(values: Array) -> Array:
        return np.einsum("yi,nijc,xj->nyxc", matrices[0], values.astype(float), matrices[1], optimize=True)

    value, passed, size = interpolate(x.value), interpolate(x.error), interpolate(x.magnitude)
    if nearest:
        return Bounded(value.astype(x.value.dtype), passed, x.scaled)
    if operation.takes_floats:
        # For each product: the weights (2 each), their product, the product with the element; and three additions.
        return operation.float_result(value, passed, 9 * operation.unit * size)
    return operation.integer_result(
        _integer_sums(value, operation), passed, (9 + STEPS_OF_FLOAT32) * FLOAT32_UNIT * size
    )


RULES: dict[str, Callable[..., Bounded]] = {
    "ARGMAX": _argmax,
    "AVG_POOL2D": _average,
    "CONV2D": _convolution,
    "CONV3D": _convolution,
    "DEPTHWISE_CONV2D": _convolution,
    "MATMUL": _matmul,
    "MAX_POOL2D": _max_pool,
    "REDUCE_ALL": _reduction(np.all),
    "REDUCE_ANY": _reduction(np.any),
    "REDUCE_MAX": _reduction(np.max),
    "REDUCE_MIN": _reduction(np.min),
    "REDUCE_PRODUCT": _product,
    "REDUCE_SUM": _sum,
    "RESIZE": _resize,
    "TRANSPOSE_CONV2D": _transposed_convolution,
}
