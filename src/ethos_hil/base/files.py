"""File writers that never let a reader see half a file, or half a line."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

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
                descriptor, name = tempfile.mkstemp(dir=path.parent or Path(), prefix=_hidden(path))
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


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files whole or not at all; an existing folder is replaced with everything in it.

    Raises:
        OSError: its parent cannot be made, it is not a folder, the disk is full, ...
    """
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=path.parent, prefix=_hidden(path)))
    before = fresh.with_name(f"{fresh.name}.before")
    try:
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        fresh.chmod(_permissions(0o777))
        if path.exists():
            path.rename(before)
        fresh.rename(path)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        if before.exists() and not path.exists():
            before.rename(path)
        raise
    shutil.rmtree(before, ignore_errors=True)


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


def _hidden(path: Path) -> str:
    """Return how the names of our temporary files for a path start. A name may have no more than 255 bytes."""
    return f".{path.name[:50]}."


def _permissions(mode: int) -> int:
    """Return the permissions of the user's files: tempfile makes private ones."""
    umask = os.umask(0)
    os.umask(umask)
    return mode & ~umask
