"""Inputs of a run as input sets: the arrays of an .npz file, or the model's example inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ethos_hil.lowering.array_archive import ArrayHeader, array_archive
from ethos_hil.lowering.errors import UsageError
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.zip_members import BadArchive
from ethos_hil.results.regular_file import opened

InputSet = tuple[np.ndarray, ...]


def describe(array: np.ndarray | ArrayHeader) -> str:
    """Return an array's dtype and shape in the notation of a program's tensors: float32[1, 3, 8, 8]."""
    return f"{array.dtype}{list(array.shape)}"


@dataclass(frozen=True)
class InputFile:
    """An .npz file that is not yet matched with a program.

    Looking at what it declares is cheap and comes before lowering. Its arrays are loaded when they fit the program.
    """

    path: Path
    headers: tuple[ArrayHeader, ...]

    @classmethod
    def read(cls, path: Path) -> InputFile:
        """Read what the file declares about its arrays.

        Raises:
            UsageError: there is no such file, or it is not a readable .npz of plain arrays.
        """
        try:
            with opened(path) as file, array_archive(file) as archive:
                return cls(path, archive.headers)
        except FileNotFoundError:
            raise UsageError(f"no such inputs file: {path}") from None
        except (OSError, BadArchive) as error:
            raise _unreadable(path, error) from error

    def input_sets(self, tensors: Sequence[Tensor]) -> tuple[InputSet, ...]:
        """Return the file's arrays as input sets for `tensors`.

        The file has one array per input, in the order of the inputs (names do not matter). Each array has either the
        shape of its input, for one input set, or one more leading axis, for as many sets as that axis is long.

        Raises:
            UsageError: the number of arrays, a shape or a dtype is wrong; the error names expected and found.
        """
        if len(self.headers) != len(tensors):
            expected = ", ".join(map(str, tensors)) or "no inputs"
            found = ", ".join(f"{header.name} {describe(header)}" for header in self.headers) or "none"
            raise UsageError(
                f"{self.path}: expected {len(tensors)} arrays ({expected}), found {len(self.headers)} ({found})"
            )
        counts = {
            header.name: self._count(header, tensor) for header, tensor in zip(self.headers, tensors, strict=True)
        }
        if len(set(counts.values())) > 1 or 0 in counts.values():
            listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
            raise UsageError(f"{self.path}: the arrays hold different numbers of input sets, or none ({listed})")
        batches = [
            array[None] if array.shape == tensor.sizes else array
            for array, tensor in zip(self._arrays(), tensors, strict=True)
        ]
        return tuple(zip(*batches, strict=True)) or ((),)

    def _count(self, header: ArrayHeader, tensor: Tensor) -> int:
        """Return the number of input sets in an array."""
        if header.dtype == tensor.dtype and header.shape == tensor.sizes:
            return 1
        if header.dtype == tensor.dtype and header.shape[1:] == tensor.sizes and header.ndim == len(tensor.sizes) + 1:
            return header.shape[0]
        raise UsageError(
            f"{self.path}: array {header.name!r}: expected {tensor}, or one more leading axis for several input sets; "
            f"found {describe(header)}"
        )

    def _arrays(self) -> list[np.ndarray]:
        try:
            with opened(self.path) as file, array_archive(file) as archive:
                if archive.headers != self.headers:
                    raise BadArchive("it was changed after it was first read")
                return [archive.read(header) for header in self.headers]
        except (OSError, BadArchive) as error:
            raise _unreadable(self.path, error) from error


def _unreadable(path: Path, error: OSError | BadArchive) -> UsageError:
    why = (error.strerror or error) if isinstance(error, OSError) else error
    return UsageError(f"{path} is not a readable .npz of plain arrays: {why}", hint="write it with numpy.savez")
