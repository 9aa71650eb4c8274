"""The members of a zip archive that a stranger may have written, checked before one of them is unpacked."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

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
        BadArchive: it is no archive, or is refused.
    """
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, OSError) as error:
        raise BadArchive(f"it is not a zip archive: {error}") from error
    with archive:
        _check(archive.infolist(), size, packed=packed)
        yield ZipMembers(archive)


def _check(found: list[zipfile.ZipInfo], size: int, *, packed: bool) -> None:
    if len(found) > _MOST_MEMBERS:
        raise BadArchive(f"it has {len(found):,} members, at most {_MOST_MEMBERS:,} are read")
    seen: set[str] = set()
    for info in found:
        if info.filename in seen:
            raise BadArchive(f"two members are called {info.filename!r}")
        seen.add(info.filename)
        _check_member(info, packed=packed)
    stored = sum(info.compress_size for info in found)
    if stored > size:
        raise BadArchive(f"its members have {stored:,} bytes, the archive {size:,}: they share bytes")
    total = sum(info.file_size for info in found)
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
