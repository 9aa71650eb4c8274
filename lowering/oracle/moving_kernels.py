"""CPU operators that only move or copy elements, in NumPy, so that their programs are checked without PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

Mover = Callable[..., np.ndarray | None]
"""Takes the call's arguments without its outputs, lists as lists; returns the output, or None to decline."""


def _same(values: np.ndarray, *_: Any) -> np.ndarray:
    return values  # the caller gives it the shape and the type of the output


def _permute(values: np.ndarray, dimensions: list[int]) -> np.ndarray:
    return np.transpose(values, dimensions)


def _transpose(values: np.ndarray, first: int, second: int) -> np.ndarray:
    return np.swapaxes(values, first, second) if values.ndim else values


def _expand(values: np.ndarray, sizes: list[int], *_: Any) -> np.ndarray:
    before = len(sizes) - values.ndim
    return np.broadcast_to(values, [values.shape[at - before] if size == -1 else size for at, size in enumerate(sizes)])


def _slice(values: np.ndarray, dimension: int, start: int | None, end: int | None, step: int) -> np.ndarray:
    chosen: list[slice] = [slice(None)] * values.ndim
    chosen[dimension] = slice(start, end, step)
    return values[tuple(chosen)]


def _select(values: np.ndarray, dimension: int, index: int) -> np.ndarray:
    return np.take(values, index, axis=dimension)


def _repeat(values: np.ndarray, times: list[int]) -> np.ndarray:
    return np.tile(values, times)


def _join(parts: list[np.ndarray], dimension: int = 0) -> np.ndarray | None:
    parts = [part for part in parts if part.shape != (0,)]  # as PyTorch has it, for the sake of old programs
    return np.concatenate(parts, dimension) if len({part.dtype for part in parts}) == 1 else None


def _stack(parts: list[np.ndarray], dimension: int = 0) -> np.ndarray | None:
    return np.stack(parts, dimension) if len({part.dtype for part in parts}) == 1 else None


def _pad(values: np.ndarray, widths: list[int], value: float) -> np.ndarray | None:
    if min(widths, default=0) < 0:
        return None
    pairs = [(widths[at], widths[at + 1]) for at in range(0, len(widths), 2)]  # the last dimension first
    pairs += [(0, 0)] * (values.ndim - len(pairs))
    return np.pad(values, pairs[::-1], constant_values=value)


def _split_sizes(values: np.ndarray, sizes: list[int], dimension: int) -> list[np.ndarray]:
    return np.split(values, np.cumsum(sizes)[:-1], dimension)


def _split(values: np.ndarray, size: int, dimension: int) -> list[np.ndarray] | None:
    return np.split(values, range(size, values.shape[dimension], size), dimension) if size > 0 else None


def _unbind(values: np.ndarray, dimension: int) -> list[np.ndarray]:
    return [_select(values, dimension, at) for at in range(values.shape[dimension])]


MOVING: Mapping[str, Mover] = MappingProxyType(
    {
        "aten::view_copy.out": _same,
        "aten::clone.out": _same,
        "aten::alias_copy.out": _same,
        "aten::detach_copy.out": _same,
        "aten::squeeze_copy.dim_out": _same,
        "aten::squeeze_copy.dims_out": _same,
        "aten::unsqueeze_copy.out": _same,
        "aten::permute_copy.out": _permute,
        "aten::transpose_copy.int_out": _transpose,
        "aten::expand_copy.out": _expand,
        "aten::slice_copy.Tensor_out": _slice,
        "aten::select_copy.int_out": _select,
        "aten::repeat.out": _repeat,
        "aten::cat.out": _join,
        "aten::stack.out": _stack,
        "aten::constant_pad_nd.out": _pad,
    }
)
"""Kernels with one output, by the operator's full name."""
SPLITTING: Mapping[str, Callable[..., list[np.ndarray] | None]] = MappingProxyType(
    {
        "aten::split_with_sizes_copy.out": _split_sizes,
        "aten::split_copy.Tensor_out": _split,
        "aten::unbind_copy.int_out": _unbind,
    }
)
"""Kernels with a list of outputs."""
