"""Inputs of a run: an .npz file's arrays, or the model's example inputs, as input sets."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lowering.errors import UsageError
from lowering.plan import Tensor

InputSet = tuple[np.ndarray, ...]


def describe(array: np.ndarray) -> str:
    """An array's dtype and shape, written as a program's tensors are: float32[1, 3, 8, 8]."""
    return f"{array.dtype}{list(array.shape)}"


def load_npz(path: Path, specs: Sequence[Tensor]) -> tuple[InputSet, ...]:
    """Input sets from an .npz file.

    The file holds one array per input, in the order of the inputs (names do not matter). Each array has either the
    shape of its input, for one input set, or one more leading axis, for as many sets as that axis is long.

    Raises:
        UsageError: not a readable .npz; wrong number of arrays, shapes or dtypes, naming expected and found.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [(name, file[name]) for name in file.files]
    except FileNotFoundError:
        raise UsageError(f"no such inputs file: {path}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise UsageError(
            f"{path} is not a readable .npz of plain arrays: {error}", hint="write it with numpy.savez"
        ) from error
    expected = ", ".join(map(str, specs)) or "no inputs"
    if len(arrays) != len(specs):
        found = ", ".join(f"{name} {describe(array)}" for name, array in arrays) or "none"
        raise UsageError(f"{path}: expected {len(specs)} arrays ({expected}), found {len(arrays)} ({found})")
    counts = {}
    for (name, array), spec in zip(arrays, specs, strict=True):
        batched = array.shape[1:] == spec.sizes and array.ndim == len(spec.sizes) + 1
        if array.dtype != spec.dtype or not (batched or array.shape == spec.sizes):
            raise UsageError(
                f"{path}: array {name!r}: expected {spec}, or one more leading axis for several input sets; "
                f"found {describe(array)}"
            )
        counts[name] = len(array) if batched else 1
    if len(set(counts.values())) > 1 or 0 in counts.values():
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise UsageError(f"{path}: the arrays hold different numbers of input sets, or none ({listed})")
    sets = next(iter(counts.values()), 1)
    batches = [
        array if array.shape != spec.sizes else array[None] for (_, array), spec in zip(arrays, specs, strict=True)
    ]
    return tuple(tuple(batch[index] for batch in batches) for index in range(sets))
