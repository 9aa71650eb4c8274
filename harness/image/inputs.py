"""Inputs of a run as input sets: the arrays of an .npz file, or the model's example inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.base.regular_file import opened
from ethos_hil.harness.image.array_names import in_order
from ethos_hil.lowering.formats.array_archive import ArrayHeader, array_archive
from ethos_hil.lowering.formats.zip_members import BadArchive

InputSet = tuple[np.ndarray, ...]


def digest_of(input_sets: Sequence[InputSet]) -> str:
    """Return the SHA-256 of input sets, hexadecimal: of each array's dtype, shape and elements, in order."""
    digest = hashlib.sha256()
    for entry in input_sets:
        digest.update(f"{len(entry)} inputs\n".encode())
        for array in entry:
            digest.update(f"{describe(array)}\n".encode() + array.tobytes())
    return digest.hexdigest()


class ArrayForm(Protocol):
    """What an array must be: its dtype and shape, and both in words."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an element."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape."""


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
    def read(cls, path: Path, what: str = "inputs") -> InputFile:
        """Read what the file declares about its arrays.

        Args:
            path: the file.
            what: what it holds, in an error.

        Raises:
            UsageError: there is no such file, or it is not a readable .npz of plain arrays.
        """
        try:
            with opened(path) as file, array_archive(file) as archive:
                return cls(path, archive.headers)
        except FileNotFoundError:
            raise UsageError(f"no such {what} file: {path}") from None
        except (OSError, BadArchive) as error:
            raise _unreadable(path, error) from error

    def input_sets(self, tensors: Sequence[ArrayForm], names: Sequence[str] = ()) -> tuple[InputSet, ...]:
        """Return the file's arrays as input sets for `tensors`, or as sets of outputs.

        The file has one array per tensor. Each array has either the shape of its tensor, for one set, or one more
        leading axis, for as many sets as that axis is long.

        Args:
            tensors: the inputs or outputs of a program.
            names: their names, by which the arrays are matched (`ethos_hil.harness.image.array_names`).

        Raises:
            UsageError: the number of arrays, a name, a shape or a dtype is wrong; the error names expected and found.
        """
        if len(self.headers) != len(tensors):
            expected = ", ".join(map(str, tensors)) or "none"
            found = ", ".join(f"{header.name} {describe(header)}" for header in self.headers) or "none"
            raise UsageError(
                f"{self.path}: expected {len(tensors)} arrays ({expected}), found {len(self.headers)} ({found})"
            )
        by_name = {header.name: header for header in self.headers}
        ordered = [by_name[name] for name in in_order(self.path, tuple(by_name), names)]
        counts = {header.name: self._count(header, tensor) for header, tensor in zip(ordered, tensors, strict=True)}
        if len(set(counts.values())) > 1 or 0 in counts.values():
            listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
            raise UsageError(f"{self.path}: the arrays hold different numbers of sets, or none ({listed})")
        batches = [
            array[None] if array.shape == tensor.sizes else array
            for array, tensor in zip(self._arrays(ordered), tensors, strict=True)
        ]
        return tuple(zip(*batches, strict=True)) or ((),)

    def _count(self, header: ArrayHeader, tensor: ArrayForm) -> int:
        """Return the number of input sets in an array."""
        if header.dtype == tensor.dtype and header.shape == tensor.sizes:
            return 1
        if header.dtype == tensor.dtype and header.shape[1:] == tensor.sizes and header.ndim == len(tensor.sizes) + 1:
            return header.shape[0]
        raise UsageError(
            f"{self.path}: array {header.name!r}: expected {tensor}, or one more leading axis for several sets; "
            f"found {describe(header)}"
        )

    def _arrays(self, headers: Sequence[ArrayHeader]) -> list[np.ndarray]:
        try:
            with opened(self.path) as file, array_archive(file) as archive:
                if archive.headers != self.headers:
                    raise BadArchive("it was changed after it was first read")
                return [archive.read(header) for header in headers]
        except (OSError, BadArchive) as error:
            raise _unreadable(self.path, error) from error


def _unreadable(path: Path, error: OSError | BadArchive) -> UsageError:
    why = (error.strerror or error) if isinstance(error, OSError) else error
    return UsageError(f"{path} is not a readable .npz of plain arrays: {why}", hint="write it with numpy.savez")
