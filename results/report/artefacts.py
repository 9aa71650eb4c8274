"""The files of a run, with what proves that they are the ones: size and digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ethos_hil.base.regular_file import opened
from ethos_hil.results.report.wording import size

_MOST = 200
_PART = 1 << 20


@dataclass(frozen=True)
class RunFile:
    """A file of a run: its name, a link relative to the report, its size and SHA-256. `problem` says why it was not
    read.
    """

    name: str
    link: str
    size: str
    sha256: str
    problem: str = ""


def run_files(folders: Iterable[Path], beside: Path | None, without: Path | None) -> tuple[RunFile, ...]:
    """Return the files of a run's folders.

    Args:
        folders: where the run is.
        beside: the folder that the report is written to; None where it is not known, and links are absolute.
        without: the report itself.
    """
    found: list[RunFile] = []
    for folder in folders:
        for path in _files(folder):
            if len(found) == _MOST:
                return tuple(found)
            if without is None or path.resolve() != without.resolve():
                found.append(_file(path, folder, beside))
    return tuple(found)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and the folders in it, in order; links and hidden ones are left alone."""
    for root, inside, names in os.walk(folder):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            if not name.startswith(".") and path.is_file() and not path.is_symlink():
                yield path


def _file(path: Path, folder: Path, beside: Path | None) -> RunFile:
    name = f"{folder.name}/{path.relative_to(folder).as_posix()}"
    where = os.path.relpath(path.resolve(), beside.resolve()) if beside is not None else path.resolve().as_posix()
    link = quote(os.fsencode(where.replace(os.sep, "/")))
    digest = hashlib.sha256()
    try:
        with opened(path) as file:
            count = 0
            while part := file.read(_PART):
                digest.update(part)
                count += len(part)
    except OSError as error:
        return RunFile(name, link, "", "", error.strerror or str(error))
    # "./" keeps a name with a colon from being taken for a scheme, such as javascript:.
    return RunFile(name, link if link.startswith(("/", "../")) else f"./{link}", size(count), digest.hexdigest())
