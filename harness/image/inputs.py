"""Inputs of a run as input sets: the arrays of an .npz file, or the model's example inputs."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ethos_hil.lowering.errors import UsageError
from ethos_hil.lowering.formats.pte_model import Tensor

InputSet = tuple[np.ndarray, ...]


def describe(array: np.ndarray) -> str:
    """Return an array's dtype and shape in the notation of a program's tensors: float32[1, 3, 8, 8]."""
    return f"{array.dtype}{list(array.shape)}"


@dataclass(frozen=True)
class InputFile:
    """An .npz file that is read but not yet matched with a program: reading is cheap and comes before lowering."""

    path: Path
    arrays: tuple[tuple[str, np.ndarray], ...]

    @classmethod
    def read(cls, path: Path) -> InputFile:
        """Read all arrays of the file.

        Raises:
            UsageError: there is no such file, or it is not a readable .npz of plain arrays.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(path, tuple((name, file[name]) for name in file.files))
        except FileNotFoundError:
            raise UsageError(f"no such inputs file: {path}") from None
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
            raise UsageError(
                f"{path} is not a readable .npz of plain arrays: {error}", hint="write it with numpy.savez"
            ) from error

    def input_sets(self, tensors: Sequence[Tensor]) -> tuple[InputSet, ...]:
        """Return the file's arrays as input sets for `tensors`.

        The file has one array per input, in the order of the inputs (names do not matter). Each array has either the
        shape of its input, for one input set, or one more leading axis, for as many sets as that axis is long.

        Raises:
            UsageError: the number of arrays, a shape or a dtype is wrong; the error names expected and found.
        """
        if len(self.arrays) != len(tensors):
            expected = ", ".join(map(str, tensors)) or "no inputs"
            found = ", ".join(f"{name} {describe(array)}" for name, array in self.arrays) or "none"
            raise UsageError(
                f"{self.path}: expected {len(tensors)} arrays ({expected}), found {len(self.arrays)} ({found})"
            )
        batches = {
            name: self._batch(name, array, tensor) for (name, array), tensor in zip(self.arrays, tensors, strict=True)
        }
        counts = {name: len(batch) for name, batch in batches.items()}
        if len(set(counts.values())) > 1 or 0 in counts.values():
            listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
            raise UsageError(f"{self.path}: the arrays hold different numbers of input sets, or none ({listed})")
        return tuple(zip(*batches.values(), strict=True)) or ((),)

    def _batch(self, name: str, array: np.ndarray, tensor: Tensor) -> np.ndarray:
        if array.dtype == tensor.dtype and array.shape == tensor.sizes:
            return array[None]
        if array.dtype == tensor.dtype and array.shape[1:] == tensor.sizes and array.ndim == len(tensor.sizes) + 1:
            return array
        raise UsageError(
            f"{self.path}: array {name!r}: expected {tensor}, or one more leading axis for several input sets; "
            f"found {describe(array)}"
        )
