"""Archives of arrays (.npz) that a stranger may have written: what they declare is looked at before memory is taken."""

from __future__ import annotations

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import BinaryIO

import numpy as np

from ethos_hil.base.dataclasses import dataclass

_MOST_MEMBERS = 65_536
_MOST_RATIO = 100
_MOST_BYTES = 8 << 30
_SMALL = 64 << 20
"""An archive that unpacks to no more than these bytes may be packed at any ratio: zeros pack at 1 to 1,000."""


class BadArchive(ValueError):
    """An archive cannot be used as it is. The message names the member and says what is wrong with it."""


class ZipMembers:
    """The members of an archive, by name.

    Attributes:
        sizes: unpacked bytes of each member.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.sizes = {info.filename: info.file_size for info in archive.infolist()}

    def read(self, name: str) -> bytes:
        """Return a member's bytes: as many as the archive declares, never more.

        Raises:
            BadArchive: there is no such member, or it is damaged.
        """
        with self.opened(name) as member:
            try:
                data = member.read(self.sizes[name])
            except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
                raise BadArchive(f"member {name} is damaged: {error}") from error
        if len(data) != self.sizes[name]:
            raise BadArchive(f"member {name} has {len(data):,} bytes, the archive declares {self.sizes[name]:,}")
        return data

    @contextmanager
    def opened(self, name: str) -> Iterator[zipfile.ZipExtFile]:
        """Open a member. Raises BadArchive, as `read`."""
        if name not in self.sizes:
            raise BadArchive(f"it has no member {name}")
        try:
            member = self._archive.open(name)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
            raise BadArchive(f"member {name} is damaged: {error}") from error
        with member:
            yield member  # type: ignore[misc]


@contextmanager
def members(file: BinaryIO, size: int, *, packed: bool = True) -> Iterator[ZipMembers]:
    """Open an archive and check its list of members.

    An archive is refused if two members have one name, share bytes, or would lie outside the folder that they are
    unpacked into, if one is a link or encrypted, and if the members together are too large: more than 8 GiB, or more
    than 64 MiB and 100 times the archive.

    Args:
        file: the archive.
        size: its size, bytes.
        packed: whether members may be compressed (deflate).

    Raises:
        BadArchive: it is not an archive, or is refused.
    """
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, OSError) as error:
        raise BadArchive(f"it is not a zip archive: {error}") from error
    with archive:
        _check(archive.infolist(), size, packed=packed)
        yield ZipMembers(archive)


def _check(members: list[zipfile.ZipInfo], size: int, *, packed: bool) -> None:
    if len(members) > _MOST_MEMBERS:
        raise BadArchive(f"it has {len(members):,} members, at most {_MOST_MEMBERS:,} are read")
    seen: set[str] = set()
    for info in members:
        if info.filename in seen:
            raise BadArchive(f"two members are called {info.filename!r}")
        seen.add(info.filename)
        _check_member(info, packed=packed)
    stored = sum(info.compress_size for info in members)
    if stored > size:
        raise BadArchive(f"its members have {stored:,} bytes, the archive {size:,}: they share bytes")
    total = sum(info.file_size for info in members)
    if total > _MOST_BYTES or total > max(_SMALL, _MOST_RATIO * size):
        raise BadArchive(
            f"it has {size:,} bytes and unpacks to {total:,}; at most {_MOST_RATIO} times its size and "
            f"{_MOST_BYTES:,} bytes are unpacked"
        )


def _check_member(info: zipfile.ZipInfo, *, packed: bool) -> None:
    name = info.filename
    if not name or name != info.orig_filename or name.startswith("/") or "\\" in name or ".." in name.split("/"):
        raise BadArchive(f"a member is called {info.orig_filename!r}")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise BadArchive(f"member {name} is a link")
    if info.flag_bits & 1:
        raise BadArchive(f"member {name} is encrypted")
    allowed = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if packed else (zipfile.ZIP_STORED,)
    if info.compress_type not in allowed:
        raise BadArchive(f"member {name} is compressed by method {info.compress_type}")
    if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
        raise BadArchive(f"member {name} is not compressed, but has two sizes: {info.compress_size}, {info.file_size}")


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

    def __init__(self, archive: ZipMembers) -> None:
        self._archive = archive
        self.headers = tuple(map(self._header, archive.sizes))

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
            raise BadArchive(f"member {member} is not an array")
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
def array_archive(file: BinaryIO) -> Iterator[ArrayArchive]:
    """Open an archive of arrays, and check what it declares.

    Raises:
        BadArchive: it is not an archive of plain arrays, or declares another size than it has, or unpacks to too much
            (`ethos_hil.lowering.formats.array_archive`).
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    with members(file, size) as archive:
        yield ArrayArchive(archive)


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


def packed_sets(sets: Sequence[Sequence[np.ndarray]], names: Sequence[str]) -> bytes:
    """Return input sets, or sets of outputs, as an archive that `--inputs` and `--expected` read.

    Where there are several sets, an array has one more leading axis: the sets in their order.

    Args:
        sets: at least one; each has an array for each name.
        names: the arrays' names.
    """
    columns = zip(*sets, strict=True)
    arrays = [np.stack(column) if len(sets) > 1 else column[0] for column in columns]
    return packed_arrays(dict(zip(names, arrays, strict=True)))


def read_arrays(file: BinaryIO) -> dict[str, np.ndarray]:
    """Return the arrays of an archive by name. Raises BadArchive, as `array_archive`."""
    with array_archive(file) as archive:
        return {header.name: archive.read(header) for header in archive.headers}
