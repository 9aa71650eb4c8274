"""Archives of arrays (.npz) that a stranger may have written: what they declare is looked at before memory is taken."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import BinaryIO

import numpy as np

from ethos_hil.lowering.formats.zip_members import BadArchive, ZipMembers, members

_SUFFIX = ".npy"
_MOST_HEADER = 10_000  # characters; numpy's own limit
_READERS: dict[tuple[int, int], Callable[..., tuple[tuple[int, ...], bool, np.dtype]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class ArrayHeader:
    """What an archive declares about one of its arrays: name, dtype and shape."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes that the array takes."""
        return prod(self.shape) * self.dtype.itemsize


class ArrayArchive:
    """The arrays of an archive.

    Attributes:
        headers: what is declared about each, in the order of the archive.
    """

    def __init__(self, archive: ZipMembers, left_out: Collection[str] = ()) -> None:
        self._archive = archive
        wanted = (member for member in archive.sizes if member.removesuffix(_SUFFIX) not in left_out)
        self.headers = tuple(self._header(member) for member in wanted)

    def read(self, header: ArrayHeader) -> np.ndarray:
        """Return an array. Raises BadArchive if it is damaged."""
        try:
            with self._archive.opened(header.name + _SUFFIX) as member:
                array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
        except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise BadArchive(f"array {header.name!r} is damaged: {error}") from error
        if (array.dtype, array.shape) != (header.dtype, header.shape):
            raise BadArchive(f"array {header.name!r} has changed while it was read")
        return array

    def _header(self, member: str) -> ArrayHeader:
        if not member.endswith(_SUFFIX):
            raise BadArchive(f"member {member} is no array")
        name = member.removesuffix(_SUFFIX)
        try:
            with self._archive.opened(member) as file:
                version = np.lib.format.read_magic(file)
                if version not in _READERS:
                    raise BadArchive(f"array {name!r} has the format {version[0]}.{version[1]}")
                shape, _, dtype = _READERS[version](file, max_header_size=_MOST_HEADER)
                stored = self._archive.sizes[member] - file.tell()
        except BadArchive:
            raise
        except (ValueError, TypeError, EOFError, OSError, RecursionError, zipfile.BadZipFile) as error:
            raise BadArchive(f"array {name!r} is damaged: {error}") from error
        header = ArrayHeader(name, dtype, shape)
        if dtype.hasobject:
            raise BadArchive(f"array {name!r} holds objects, not numbers")
        if any(size < 0 for size in shape) or header.nbytes != stored:
            raise BadArchive(
                f"array {name!r} declares {dtype}{list(shape)}, {header.nbytes:,} bytes, and has {stored:,}"
            )
        return header


@contextmanager
def array_archive(file: BinaryIO, left_out: Collection[str] = ()) -> Iterator[ArrayArchive]:
    """Open an archive of arrays, and check what it declares.

    Args:
        file: the archive, from its beginning.
        left_out: names of arrays that nobody wants, whatever they hold.

    Raises:
        BadArchive: it is no archive of plain arrays, or declares another size than it has, or unpacks to too much
            (`ethos_hil.lowering.formats.zip_members`).
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    with members(file, size) as archive:
        yield ArrayArchive(archive, left_out)


def packed_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return an archive of arrays by name, in this order.

    numpy.savez takes the names as keyword arguments, so that no array can be called "file".
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}{_SUFFIX}", "w") as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
    return packed.getvalue()


def read_arrays(file: BinaryIO, left_out: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Return the arrays of an archive by name. Raises BadArchive, as `array_archive`."""
    with array_archive(file, left_out) as archive:
        return {header.name: archive.read(header) for header in archive.headers}
