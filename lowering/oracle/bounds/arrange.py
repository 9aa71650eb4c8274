"""Rules of the operators that move data: errors move with their values, and no error is added."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, TosaOperation

Array = np.ndarray


def moved(move: Callable[..., Array], *inputs: Bounded) -> Bounded:
    """Return values and errors after the same movement."""
    return Bounded(
        move(*(one.value for one in inputs)), move(*(one.error for one in inputs)), any(one.scaled for one in inputs)
    )


def _identity(_: TosaOperation, x: Bounded) -> Bounded:
    return x


def _reshape(operation: TosaOperation, x: Bounded, _shape: Bounded) -> Bounded:
    return moved(lambda array: array.reshape(operation.output.shape), x)


def _transpose(operation: TosaOperation, x: Bounded) -> Bounded:
    return moved(lambda array: array.transpose(operation.vector("Perms")), x)


def _reverse(operation: TosaOperation, x: Bounded) -> Bounded:
    return moved(lambda array: np.flip(array, operation.scalar("Axis")), x)


def _concatenate(operation: TosaOperation, *inputs: Bounded) -> Bounded:
    return moved(lambda *arrays: np.concatenate(arrays, operation.scalar("Axis")), *inputs)


def _slice(_: TosaOperation, x: Bounded, start: Bounded, size: Bounded) -> Bounded:
    part = tuple(slice(first, first + count) for first, count in zip(start.value, size.value, strict=True))
    return moved(lambda array: array[part], x)


def _tile(_: TosaOperation, x: Bounded, multiples: Bounded) -> Bounded:
    return moved(lambda array: np.tile(array, multiples.value.tolist()), x)


def _pad(_: TosaOperation, x: Bounded, padding: Bounded, constant: Bounded) -> Bounded:
    widths = padding.value.reshape(-1, 2)
    return moved(lambda array, filler: np.pad(array, widths, constant_values=filler.reshape(())), x, constant)


def _exact_indices(operation: TosaOperation, indices: Bounded) -> Array:
    if not indices.is_exact:
        raise NoBound(f"{operation.op} by indices that may differ has no error bound")
    return indices.integers


def _gather(operation: TosaOperation, values: Bounded, indices: Bounded) -> Bounded:
    rows = _exact_indices(operation, indices)[..., None]
    return moved(lambda array: np.take_along_axis(array, rows, axis=1), values)


def _scatter(operation: TosaOperation, values: Bounded, indices: Bounded, updates: Bounded) -> Bounded:
    rows = _exact_indices(operation, indices)[..., None]

    def put(array: Array, update: Array) -> Array:
        result = array.copy()
        np.put_along_axis(result, rows, update, axis=1)
        return result

    return moved(put, values, updates)


RULES: dict[str, Callable[..., Bounded]] = {
    "CONCAT": _concatenate,
    "GATHER": _gather,
    "IDENTITY": _identity,
    "PAD": _pad,
    "RESHAPE": _reshape,
    "REVERSE": _reverse,
    "SCATTER": _scatter,
    "SLICE": _slice,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
}
