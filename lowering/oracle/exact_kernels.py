"""CPU operators that NumPy computes as PyTorch does, bit for bit, so that their programs are checked without PyTorch.

They compare, combine bits, or choose elements, or are one operation of float32, which IEEE 754 rounds in one way.
Harder cases, such as tensors of different types or an index out of range, are declined and left to PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Kernel = Callable[..., np.ndarray | None]
"""Takes the call's arguments without its outputs, lists as lists; returns the output, or None to decline."""


def _alike(*arrays: Any) -> bool:
    """Return whether all are tensors of one type, so that nothing is promoted."""
    return all(isinstance(array, np.ndarray) for array in arrays) and len({array.dtype for array in arrays}) == 1


def _elementwise(function: Callable[..., np.ndarray]) -> Kernel:
    return lambda *arrays: function(*arrays) if _alike(*arrays) else None


def _of_floats(function: Callable[..., np.ndarray]) -> Kernel:
    return lambda *arrays: function(*arrays) if _alike(*arrays) and arrays[0].dtype == np.float32 else None


def _by_number(function: Callable[..., np.ndarray]) -> Kernel:
    """Return the kernel of an operator on a tensor of float32 and a number."""
    return lambda values, number: function(values, np.float32(number)) if values.dtype == np.float32 else None


def _unscaled(kernel: Kernel) -> Kernel:
    """Return the kernel of an operator that has a factor for its second operand: with 1 it is one operation."""
    return lambda left, other, factor: kernel(left, other) if factor == 1 else None


def _relu(values: np.ndarray) -> np.ndarray | None:
    # NaN stays NaN, and -0.0 stays -0.0.
    return np.where(values < 0, np.float32(0), values) if values.dtype == np.float32 else None


def _where(condition: np.ndarray, chosen: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    return np.where(condition, chosen, other) if condition.dtype == np.bool_ and _alike(chosen, other) else None


def _inside(indices: np.ndarray, values: np.ndarray, dimension: int) -> bool:
    """Return whether all indices are within a dimension, counted from its start."""
    return bool(values.ndim and np.all(indices >= 0) and np.all(indices < values.shape[dimension]))


def _index_select(values: np.ndarray, dimension: int, indices: np.ndarray) -> np.ndarray | None:
    return np.take(values, indices, axis=dimension) if _inside(indices, values, dimension) else None


def _gather(values: np.ndarray, dimension: int, indices: np.ndarray, *_: Any) -> np.ndarray | None:
    if not _inside(indices, values, dimension):
        return None
    kept = [slice(size) for size in indices.shape]  # the indices may have fewer rows than the values
    kept[dimension] = slice(None)
    return np.take_along_axis(values[tuple(kept)], indices.astype(np.int64), axis=dimension)


def _index(values: np.ndarray, indices: list[np.ndarray | None]) -> np.ndarray | None:
    whole = all(index is not None and index.dtype.kind == "i" for index in indices)
    return values[tuple(index for index in indices if index is not None)] if whole else None


def _same(values: np.ndarray, *_: Any) -> np.ndarray:
    return values  # the caller gives it the shape and the type of the output


def _expand(values: np.ndarray, sizes: list[int], *_: Any) -> np.ndarray:
    before = len(sizes) - values.ndim
    return np.broadcast_to(values, [values.shape[at - before] if size == -1 else size for at, size in enumerate(sizes)])


def _slice(values: np.ndarray, dimension: int, start: int | None, end: int | None, step: int) -> np.ndarray:
    chosen: list[slice] = [slice(None)] * values.ndim
    chosen[dimension] = slice(start, end, step)
    return values[tuple(chosen)]


def _join(parts: list[np.ndarray], dimension: int = 0) -> np.ndarray | None:
    parts = [part for part in parts if part.shape != (0,)]  # as PyTorch has it, for the sake of old programs
    return np.concatenate(parts, dimension) if len({part.dtype for part in parts}) == 1 else None


def _pad(values: np.ndarray, widths: list[int], value: float) -> np.ndarray | None:
    if min(widths, default=0) < 0:
        return None
    pairs = [(widths[at], widths[at + 1]) for at in range(0, len(widths), 2)]  # the last dimension first
    pairs += [(0, 0)] * (values.ndim - len(pairs))
    return np.pad(values, pairs[::-1], constant_values=value)


def split(values: np.ndarray, sizes: list[int], dimension: int) -> list[np.ndarray]:
    return np.split(values, np.cumsum(sizes)[:-1], dimension)


_BINARY = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
}  # fmt: skip
_LOGICAL = {
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "logical_not": np.logical_not, "bitwise_not": np.invert,
}  # fmt: skip
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
_ARITHMETIC = {"mul": np.multiply, "div": np.divide}
_COPIES = ("view_copy", "clone", "alias_copy", "detach_copy", "unsqueeze_copy")
_SCALED = {"add": np.add, "sub": np.subtract}

EXACT: Mapping[str, Kernel] = {
    **{f"aten::{name}.Tensor_out": _elementwise(function) for name, function in _BINARY.items()},
    **{f"aten::{name}.out": _elementwise(function) for name, function in _LOGICAL.items()},
    **{f"aten::{name}.Scalar_out": _by_number(_BINARY[name]) for name in _COMPARED},
    **{f"aten::{name}.out": _of_floats(function) for name, function in _ARITHMETIC.items()},
    **{f"aten::{name}.Scalar_out": _by_number(function) for name, function in _ARITHMETIC.items()},
    **{f"aten::{name}.out": _unscaled(_of_floats(function)) for name, function in _SCALED.items()},
    **{f"aten::{name}.Scalar_out": _unscaled(_by_number(function)) for name, function in _SCALED.items()},
    "aten::relu.out": _relu,
    "aten::neg.out": _of_floats(np.negative),
    "aten::abs.out": _of_floats(np.abs),
    "aten::where.self_out": _where,
    "aten::flip.out": np.flip,
    "aten::any.out": lambda values, of, keep: np.asarray(np.any(values, axis=of, keepdims=keep)),
    "aten::any.dims_out": lambda values, of, keep: np.any(values, axis=tuple(of), keepdims=keep) if of else None,
    "aten::any.all_out": lambda values: np.asarray(np.any(values)),
    "aten::index_select.out": _index_select,
    "aten::embedding.out": lambda weights, at, *_: weights[at] if _inside(at, weights, 0) else None,
    "aten::gather.out": _gather,
    "aten::index.Tensor_out": _index,
    **{f"aten::{name}.out": _same for name in _COPIES},
    "aten::squeeze_copy.dim_out": _same,
    "aten::squeeze_copy.dims_out": _same,
    "aten::permute_copy.out": np.transpose,
    "aten::transpose_copy.int_out": lambda values, *axes: np.swapaxes(values, *axes) if values.ndim else values,
    "aten::expand_copy.out": _expand,
    "aten::slice_copy.Tensor_out": _slice,
    "aten::select_copy.int_out": lambda values, dimension, index: np.take(values, index, axis=dimension),
    "aten::repeat.out": np.tile,
    "aten::cat.out": _join,
    "aten::constant_pad_nd.out": _pad,
}
"""Kernels by the operator's full name."""
SPLIT = "aten::split_with_sizes_copy.out"
"""The kernel with a list of outputs, `split`."""
