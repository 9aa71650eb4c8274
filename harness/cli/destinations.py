"""The places that a command writes to: none is the place of another one, or of what the command reads.

A file that is written is renamed into its place, so whatever was in that place is gone.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import read_text, unwritable, writable, write_whole

STDOUT = Path("-")
"""What `-` names as a file."""
_MOST_MANIFEST = 10 << 20
"""Largest size of a manifest, bytes."""


def check_distinct(written: Mapping[str, Path | None], read: Mapping[str, Path | None]) -> None:
    """Check that no file is written over another one of the same command.

    A path that is a pipe or a device is not replaced, so it may be named several times.

    Args:
        written: the files that the command writes, by the option that names them; None for one that is not given.
        read: the files that it reads, in the same way. They may be missing.

    Raises:
        UsageError: two are the same; it names both.
    """
    known = {_place(path): name for name, path in read.items() if path is not None}
    for name, path in written.items():
        if path is None or path == STDOUT or (path.exists() and not path.is_file()):
            continue
        other = known.setdefault(_place(path), name)
        if other != name:
            raise UsageError(f"{name} and {other} are the same file, {path}", hint=f"name another file for {name}")


def model_file(model: str) -> Path | None:
    """Return the file that a MODEL on the command line names, or None for a module."""
    from ethos_hil.lowering.program.program_file import PROGRAM_SUFFIXES  # late: who merges a night has no ExecuTorch

    files = (".pt2", *PROGRAM_SUFFIXES)
    name = model if model.endswith(files) else model.rpartition(":")[0]
    return Path(name) if name.endswith((".py", *files)) else None


def check_folder(folder: Path, written: Mapping[str, Path | None], *, option: str = "--artifacts") -> None:
    """Check that files can be written into a folder.

    Args:
        folder: the folder, or a link to it; it may be missing.
        written: the files that the command writes beside it, as for `check_distinct`.
        option: what names the folder on the command line.

    Raises:
        UsageError: it cannot be made or written, or lies in a file's place, or another file is to be written in it.
    """
    if folder.exists() and not folder.is_dir():
        raise unwritable(NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)), folder)
    place = folder.resolve()
    for name, path in written.items():
        if path is not None and path != STDOUT and place.is_relative_to(_place(path)):
            raise UsageError(
                f"{option} {folder} lies in {path}, which is the file that {name} names",
                hint=f"if a folder is meant, end it in /: {name} {path}/",
            )
        if path is not None and path != STDOUT and _place(path).is_relative_to(place):
            raise UsageError(
                f"{name} {path} lies in the folder {option} {folder}",
                hint=f"name another place for {name}; the program is there as model.pte in any case",
            )
    _check_can_be_made(folder)


def check_files(written: Iterable[Path | None], new_folder: Path | None = None) -> None:
    """Check that files can be written, before much work is done for them.

    Args:
        written: the files; None for one that is not given.
        new_folder: a folder that the command makes if it is missing; None if it makes none.

    Raises:
        UsageError: a folder is missing or cannot be written, or a folder is in the place of a file.
    """
    if new_folder is not None:
        _check_can_be_made(new_folder)
    for path in (path for path in written if path is not None and path != STDOUT):
        with writable(path):  # the name may be too long, or a folder above cannot be searched
            problem = _problem(path, new_folder)
            if problem is not None:
                raise OSError(problem, os.strerror(problem))


def _problem(path: Path, new_folder: Path | None) -> int | None:
    """Return the number of the error that writing a file would meet, or None."""
    if path.is_dir():
        return errno.EISDIR
    if path.exists() and not path.is_file():  # a pipe or a device is written directly
        return None
    folder = path.parent.absolute()
    if not folder.exists():
        return None if new_folder is not None and folder == new_folder.absolute() else errno.ENOENT
    return _folder_problem(folder)


def _folder_problem(folder: Path) -> int | None:
    """Return the number of the error that making a folder, or a file in it, would meet, or None."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        return errno.ENOTDIR
    return None if os.access(there, os.W_OK | os.X_OK) else errno.EACCES


def _check_can_be_made(folder: Path) -> None:
    with writable(folder):
        problem = _folder_problem(folder.absolute())
        if problem is not None:
            raise OSError(problem, os.strerror(problem))


def write_out(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; a path of "-" is stdout.

    Raises:
        UsageError: it cannot be written.
    """
    if path != STDOUT:
        with writable(path):
            write_whole(path, content)
    elif isinstance(content, str):
        sys.stdout.write(content)
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write JSON to a file, or to stdout where the path is "-". Raise UsageError when that fails."""
    write_out(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def _place(path: Path) -> Path:
    """Return where a file is: the folder without links, and the name. A link is replaced, not what it leads to."""
    return path.parent.resolve() / path.name


def listed_files(folder: Path) -> frozenset[str]:
    """Return the files that the manifest in a folder of artefacts lists; none if it is another program's."""
    from ethos_hil.lowering.output.export_files import MANIFEST  # late: with tosa-tools, which a merged night lacks

    manifest = folder / MANIFEST
    try:
        document = json.loads(read_text(manifest, most=_MOST_MANIFEST))
        files = document["files"]
        ours = {"schema_version", "sha256", "versions", "missing"} <= document.keys() and isinstance(files, list)
        return frozenset(file for file in files if isinstance(file, str)) if ours else frozenset()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return frozenset()
