"""Files: errors in the words of all commands, readers that never wait, writers that never let a reader see a half.

What someone else named or wrote is opened only where it is a regular file, and only so much of it is read: a named pipe
would keep its reader waiting, and a device may have no end.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ethos_hil.base.errors import DESCRIPTORS, ToolError, UsageError, shortage


def reason(error: Exception) -> str:
    """Return what went wrong, without the file and the number that Python puts beside it."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def unreadable(
    error: OSError, path: Path | str | None = None, *, hint: str | None = None, use: str = "read"
) -> UsageError | ToolError:
    """Return the error of a file or folder that cannot be read; too few descriptors are not its fault.

    Args:
        error: what the system says.
        path: what is named where `error` names no file.
        hint: what to do about it.
        use: what was to be done with it: "read or written".
    """
    place = error.filename2 or error.filename or path or "a file"
    return _shortage(error) or UsageError(f"{place} cannot be {use}: {reason(error)}", hint=hint)


def unwritable(error: OSError, path: Path | str, *, hint: str = "nothing was written there") -> UsageError | ToolError:
    """Return the error of a file or folder that cannot be written; too few descriptors are not its fault."""
    return _shortage(error) or UsageError(f"cannot write {path}: {reason(error)}", hint=hint)


@contextmanager
def readable(path: Path | str | None = None, *, hint: str | None = None, use: str = "read") -> Iterator[None]:
    """Raise what `unreadable` returns for an OSError inside."""
    try:
        yield
    except OSError as error:
        raise unreadable(error, path, hint=hint, use=use) from error


@contextmanager
def writable(path: Path | str, *, hint: str = "nothing was written there") -> Iterator[None]:
    """Raise what `unwritable` returns for an OSError inside."""
    try:
        yield
    except OSError as error:
        raise unwritable(error, path, hint=hint) from error


def _shortage(error: OSError) -> ToolError | None:
    return shortage(error) if error.errno in DESCRIPTORS else None


_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}

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


DIGESTS = "SHA256SUMS"
"""The file with the digests of the others."""


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all: the old content stays until the new content is on disk.

    A path that is not a regular file (a pipe, /dev/stdout) is written directly. A link is replaced; what it leads to
    stays as it is.

    Raises:
        OSError: the folder is missing, the disk is full, no one reads the named pipe, ...
    """
    write_all({path: content.encode() if isinstance(content, str) else content})


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write files as `write_whole` does; none of them appears before all are on disk.

    Raises:
        OSError: as for `write_whole`; its `filename2` is the path that was to be written.
    """
    fresh: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            try:
                if path.exists() and not path.is_file():
                    _write_directly(path, data)
                    continue
                prefix = f".{path.name[:50]}."  # a name may have no more than 255 bytes
                descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=prefix)
                fresh[path] = Path(name)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                fresh[path].chmod(_permissions(0o666))
            except OSError as error:
                error.filename2 = str(path)
                raise
        for path, temporary in fresh.items():
            temporary.replace(path)
    except BaseException:
        for temporary in fresh.values():
            temporary.unlink(missing_ok=True)
        raise


def append_line(path: Path, line: str) -> None:
    """Add a whole line to a file, which need not be there; it is on disk when this returns.

    Raises:
        OSError: the line could not be written; the file is unchanged.
    """
    data = (line + "\n").encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        before = os.fstat(descriptor).st_size
        try:
            # A writer may have died here, in the middle of its last line.
            cut = before > 0 and os.pread(descriptor, 1, before - 1) != b"\n"
            view = memoryview(b"\n" + data if cut else data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def write_into(folder: Path, files: Mapping[str, bytes], ours: Collection[str]) -> None:
    """Write files into a folder, which is made if it is missing: all of them, or none. What else is there stays.

    Args:
        folder: the folder, or a link to it.
        files: their content by name.
        ours: names of files that we wrote there before: those that are not written again are removed.

    Raises:
        OSError: one has the name of something that is not ours, the disk is full, ...
    """
    for name in files:
        if name not in ours and os.path.lexists(folder / name):
            what = f"{name} is there, and was not written by ethos-hil"
            raise FileExistsError(errno.EEXIST, what, str(folder / name))
    folder.mkdir(parents=True, exist_ok=True)
    write_all({folder / name: data for name, data in files.items()})
    for name in ours:
        old = folder / name
        if name not in files and old.parent == folder and old.is_file():
            old.unlink()


def _write_directly(path: Path, data: bytes) -> None:
    """Write to a pipe or a device. A named pipe that no one reads is an error: it would keep us waiting."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO and path.is_fifo():
            raise OSError(errno.ENXIO, "it is a named pipe that no program reads", str(path)) from error
        raise
    with os.fdopen(descriptor, "wb") as stream:
        os.set_blocking(descriptor, True)
        stream.write(data)


def _permissions(mode: int) -> int:
    """Return the permissions of the user's files: tempfile makes private ones."""
    umask = os.umask(0)
    os.umask(umask)
    return mode & ~umask
