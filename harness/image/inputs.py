"""Inputs of a run as input sets: the arrays of an .npz file, or the model's example inputs.

Which array of a file is for which tensor of a program follows from the names, or from the order in the file.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import opened
from ethos_hil.lowering.formats.array_archive import ArrayHeader, BadArchive, array_archive

_NUMBERED = re.compile(r"(arr|input|output)_(0|[1-9]\d*)")
"""Names that say nothing but a number: numpy's for arrays without one, and ours."""
_ALIKE = 0.75
"""From where on `difflib` calls two names alike: `lef` and `left` have 0.86, `image` and `mask` 0.22."""


def in_order(path: Path, given: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names of a file's arrays in the order of the tensors of a program that they are for.

    Arrays that all have names of the tensors may be in any order. Where none has, `input_1` and the like are in the
    order of their numbers, and others in that of the file.

    Args:
        path: the file, for an error.
        given: the names of its arrays, as many as there are tensors.
        names: the tensors' names. If they are not as many as the tensors, they say nothing.

    Raises:
        UsageError: only some of the names fit, or one is only nearly right, so that arrays might be swapped.
    """
    if set(given) == set(names):
        return list(names)
    if len(given) == 1 or len(names) != len(given):
        return _by_number(given)
    fitting = [name for name in given if name in names]
    others = [name for name in given if name not in names]
    free = [name for name in names if name not in given]
    if fitting:
        raise _error_of_name(path, others, free, names, f"{', '.join(fitting)} {'do' if len(fitting) > 1 else 'does'}")
    folded = {name.casefold(): name for name in names}
    cased = [name for name in given if name.casefold() in folded]
    if cased:
        raise _error_of_name(path, cased, names, names, "upper and lower case differ")
    if _numbers(given):
        return _by_number(given)
    elsewhere = [name for name, own in zip(given, names, strict=True) if _nearest(name, names) not in ("", own)]
    if elsewhere:
        raise _error_of_name(path, elsewhere, names, names, "the order in the file is another one")
    return list(given)


def _error_of_name(path: Path, wrong: Sequence[str], free: Sequence[str], names: Sequence[str], why: str) -> UsageError:
    near = [close for close in dict.fromkeys(_nearest(name, free, 0.4) for name in wrong) if close]
    suggestion = f"did you mean {', '.join(near)}? " if near else ""
    rule = "give all of them, or none: then the order in the file counts"
    return UsageError(
        f"{path}: {', '.join(wrong)}: not a name of the program's, where {why}",
        hint=f"{suggestion}The names are {', '.join(names)}; {rule}",
    )


def _nearest(name: str, names: Sequence[str], cutoff: float = _ALIKE) -> str:
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else ""


def _numbers(names: Sequence[str]) -> list[int]:
    """Return the numbers of names that are one word with a number each; none where there are others."""
    matches = [match for match in map(_NUMBERED.fullmatch, names) if match is not None]
    same = len(matches) == len(names) and len({match[1] for match in matches}) == 1
    return [int(match[2]) for match in matches] if same else []


def _by_number(names: Sequence[str]) -> list[str]:
    numbers = _numbers(names)
    return [name for _, name in sorted(zip(numbers, names, strict=True))] if numbers else list(names)


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


def fits(array: np.ndarray | ArrayHeader, tensor: ArrayForm, *, real: bool) -> bool:
    """Return whether an array is one for a tensor; `real`: or the real numbers that its integers stand for."""
    return array.shape == tensor.sizes and (array.dtype == tensor.dtype or (real and array.dtype.kind == "f"))


def unscaled(array: np.ndarray | ArrayHeader, tensor: ArrayForm) -> str | None:
    """Return what to do about floats for integers of an unknown scale; None where that is not the fault."""
    if array.dtype.kind != "f" or tensor.dtype.kind not in "iu":
        return None
    return "the program does not say what its integers stand for (input0_scale, input0_zp, ...): give integers"


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

    def input_sets(
        self, tensors: Sequence[ArrayForm], names: Sequence[str] = (), real: Sequence[bool] = ()
    ) -> tuple[InputSet, ...]:
        """Return the file's arrays as input sets for `tensors`, or as sets of outputs.

        The file has one array per tensor. Each array has either the shape of its tensor, for one set, or one more
        leading axis, for as many sets as that axis is long.

        Args:
            tensors: the inputs or outputs of a program.
            names: their names, by which the arrays are matched (`ethos_hil.harness.image.inputs`).
            real: whether the array of each may have floats in place of its integers; by default none may.

        Raises:
            UsageError: the number of arrays, a name, a shape or a dtype is wrong; the error names expected and found.
        """
        if len(self.headers) != len(tensors):
            expected = ", ".join(map(str, tensors)) or "none"
            arrays = ", ".join(f"{header.name} {describe(header)}" for header in self.headers) or "none"
            raise UsageError(
                f"{self.path}: expected {len(tensors)} arrays ({expected}), found {len(self.headers)} ({arrays})"
            )
        by_name = {header.name: header for header in self.headers}
        ordered = [by_name[name] for name in in_order(self.path, tuple(by_name), names)]
        counts = {
            header.name: self._count(header, tensor, real=floats)
            for header, tensor, floats in zip(ordered, tensors, real or [False] * len(tensors), strict=True)
        }
        if len(set(counts.values())) > 1 or 0 in counts.values():
            listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
            raise UsageError(f"{self.path}: the arrays hold different numbers of sets, or none ({listed})")
        batches = [
            array[None] if array.shape == tensor.sizes else array
            for array, tensor in zip(self._arrays(ordered), tensors, strict=True)
        ]
        return tuple(zip(*batches, strict=True)) or ((),)

    def _count(self, header: ArrayHeader, tensor: ArrayForm, *, real: bool) -> int:
        if fits(header, tensor, real=real):
            return 1
        if header.ndim and fits(replace(header, shape=header.shape[1:]), tensor, real=real):
            return header.shape[0]
        raise UsageError(
            f"{self.path}: array {header.name!r}: expected {tensor}{' or floats' * real}, or one more leading axis for "
            f"several sets; found {describe(header)}",
            hint=None if real else unscaled(header, tensor),
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
