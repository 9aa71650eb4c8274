"""Files that someone else named or wrote: only regular files are opened, and only so much of them is read.

A named pipe would keep its reader waiting, and a device may have no end. Both are refused here before they are opened.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


_BLOCK = 1 << 20


class NotAFile(OSError):
    """Something else than a regular file is at a path. `strerror` says what."""


class TooLarge(OSError):
    """A file is larger than its reader allows. `strerror` has both sizes, bytes."""


def check_regular(path: Path) -> os.stat_result:
    """Return the facts about a regular file, or about the regular file that a link leads to.

    Raises:
        NotAFile: something else is there.
        OSError: nothing is there, or it cannot be looked at.
    """
    try:
        status = path.stat()
    except ValueError as error:  # a NUL in its name
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    return _check(status, path)


@contextmanager
def opened(path: Path, *, most: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file for reading.

    Args:
        path: the file, or a link to it.
        most: largest size, bytes; by default any.

    Raises:
        NotAFile, TooLarge: as the names say.
        OSError: it cannot be opened.
    """
    check_regular(path)
    # What is at the path may change after the look at it: a pipe is then opened without waiting for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        size = _check(os.fstat(descriptor), path).st_size
        if most is not None and size > most:
            raise TooLarge(errno.EFBIG, f"it has {size:,} bytes, at most {most:,} are read", str(path))
        yield file


def read_bytes(path: Path, *, most: int | None = None) -> bytes:
    """Return the content of a regular file. Arguments and errors are those of `opened`."""
    with opened(path, most=most) as file:
        # No more than it had when it was opened: it may grow meanwhile.
        return file.read(os.fstat(file.fileno()).st_size)


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a regular file, hexadecimal. Errors are those of `opened`."""
    digest = hashlib.sha256()
    with opened(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def read_text(path: Path, encoding: str = "utf-8", *, most: int | None = None) -> str:
    """Return the text of a regular file.

    Raises:
        NotAFile, TooLarge, OSError: as `opened`.
        UnicodeDecodeError: it is not text in this encoding.
    """
    return read_bytes(path, most=most).decode(encoding)


def _check(status: os.stat_result, path: Path) -> os.stat_result:
    if stat.S_ISREG(status.st_mode):
        return status
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
    raise NotAFile(errno.EINVAL, f"it is {kind}, not a file", str(path))
