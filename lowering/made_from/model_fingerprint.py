"""What a case was made from: a change in any of it may change the model.

This is the file that declares the case, the project's modules that this file imports, directly or indirectly, the
`conftest.py`s above it, data files, folders and environment variables that their code read when they were imported,
and those that were read while the model was built and lowered (`ethos_hil.lowering.made_from.code_watch`). Installed
packages are not listed: their versions are compared too. Neither are `lowering`, whose digest is among the versions,
and `harness` and `results`, which do not affect a model.

A model may also depend on what cannot be known: what a process or the network answered. Such a case is lowered anew in
every session.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ethos_hil.base.regular_file import opened
from ethos_hil.lowering.made_from import imported_files
from ethos_hil.lowering.made_from.code_watch import WATCH, Reads, digest_of_value
from ethos_hil.lowering.made_from.project_files import SUITES, counts, names_in
from ethos_hil.lowering.made_from.session_start import BEGAN

_BUILDERS = (SUITES / "trial/build.py", *(SUITES / "declare").glob("*.py"))
"""The parts of this package that turn a declaration into a model, with all that they import of it."""
_MISSING = "missing"
"""In place of the digest of a file that was looked for and is not there."""


@dataclass(frozen=True)
class Fingerprint:
    """What a case was made from.

    Attributes:
        files: digests of files and of lists of folders, by absolute path; "missing" for a file that was not there.
        variables: digests of environment variables by name, as in `Reads`.
        unknown: what else decided, as sentences; empty where all is known.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def outdated(self, today: Reads) -> str | None:
        """Return what differs from `today`, as `read_at_import` returns it, and from the disk; None if nothing does."""
        if self.unknown:
            return self.unknown[0]
        if today.unknown:
            return min(today.unknown)
        lacking = sorted((today.files | today.folders) - self.files.keys())
        if lacking:
            return f"{lacking[0]} is part of it"
        for path, digest in self.files.items():
            if state_of(path) != digest:
                return f"{path} has changed"
        lacking = sorted(today.variables.keys() - self.variables.keys())
        if lacking:
            return f"the environment variable {lacking[0]} is part of it"
        for name, digest in self.variables.items():
            if today.variables.get(name, digest_of_value(os.environ.get(name))) != digest:
                return f"the environment variable {name} has changed"
        return None


def read_at_import(origins: Iterable[Path], folder: Path | None = None) -> Reads:
    """Return what importing a case's files has asked for: the least that it was made from.

    Args:
        origins: the files that declare the case and make its model; they need not be imported yet.
        folder: as for `fingerprint`.

    Returns:
        `files` also has the files of the modules.
    """
    return _read_at_import(tuple(origins), folder, WATCH.count)


@functools.lru_cache(maxsize=100)
def _read_at_import(origins: tuple[Path, ...], folder: Path | None, _count: int) -> Reads:
    return _reads_of(_closure(origins, folder, loaded_too=False), shared=False)


def fingerprint(origins: Iterable[Path], built: Reads | None = None, folder: Path | None = None) -> Fingerprint:
    """Return what a case was made from. Call it in the process that built the model.

    Args:
        origins: the files that declare the case and make its model.
        built: what was asked for while it was built and lowered.
        folder: the folder that Python searches first for what they import, directly or not; by default the working
            directory, for the origins alone.
    """
    reads = _reads_of(_closure(tuple(origins), folder, loaded_too=True), shared=True)
    if built is not None:
        reads.add(built)
    # What the tools looked for and did not find, and their temporary files, decide nothing.
    reads.files |= {path for path in reads.passing if Path(path).is_file()}
    unknown = set(reads.unknown)
    files = {}
    for path in sorted(reads.files | reads.folders):
        if _is_part(path) and (path in reads.folders or not Path(path).is_dir()):
            files[path] = state_of(path)
            if files[path] == "":
                unknown.add(f"{path} is neither a file nor a folder")
    return Fingerprint(files, dict(sorted(reads.variables.items())), tuple(sorted(unknown)))


def changed_in_session(files: Iterable[str]) -> str | None:
    """Return a file that changed since the session began, or None. Its old text may have been imported."""
    for path in files:
        try:
            status = Path(path).stat()
        except FileNotFoundError:
            continue  # its state is "missing"
        except OSError:
            return path
        listed = WATCH.listings.get(path)
        if listed is not None:  # bytecode that is written into a folder changes its time, too
            if listed != state_of(path):
                return path
            continue
        # A file that is renamed keeps the time of its modification, but not that of its change. Anybody can give a file
        # a time of modification in the future; it tells nothing.
        if status.st_ctime_ns >= BEGAN or BEGAN <= status.st_mtime_ns <= time.time_ns():
            return path
    return None


def state_of(path: str | Path) -> str:
    """Return the digest of a file, or of the names in a folder; "missing", or "" for anything else."""
    try:
        status = Path(path).stat()
        if stat.S_ISREG(status.st_mode):
            return _digest(str(path), status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        if stat.S_ISDIR(status.st_mode):
            return names_in(path)
    except FileNotFoundError:
        return _MISSING
    except OSError as error:
        return f"{error.strerror}"
    return ""


@functools.lru_cache(maxsize=4000)
def _digest(path: str, _inode: int, _modified: int, _changed: int, _size: int) -> str:
    with opened(Path(path)) as file:
        return hashlib.sha256(file.read()).hexdigest()


def _closure(origins: tuple[Path, ...], folder: Path | None, *, loaded_too: bool) -> set[Path]:
    """Return the files of the modules that a case is made from.

    Args:
        origins: the files that declare the case and make its model.
        folder: as for `fingerprint`.
        loaded_too: where a module imports by a computed name, all imported modules count.
    """
    loaded = imported_files.loaded()
    first = {path.resolve() for path in origins}
    above = {folder for path in first for folder in path.parents}
    # Of several that are no part of a package, pytest leaves only one among the imported modules.
    everywhere = {*loaded, *map(Path, WATCH.heard)}
    files = {*first, *_BUILDERS, *(path for path in everywhere if path.name == "conftest.py" and path.parent in above)}
    waiting = [path for path in files if path not in _BUILDERS]
    while waiting:
        path = waiting.pop()
        package = getattr(loaded.get(path), "__package__", None) or ""
        found, dynamic = imported_files.imported_by(path, package, folder or (Path.cwd() if path in first else None))
        if dynamic and loaded_too:
            found |= set(loaded)
        for reads in (WATCH.own.get(str(path)), WATCH.shared.get(str(path)) if loaded_too else None):
            found |= {Path(each) for each in reads.executed} if reads is not None else set()
        new = {file for file in found if file.is_file()} - files
        files |= new
        waiting += new
    return files


def _reads_of(files: set[Path], *, shared: bool) -> Reads:
    """Return what the modules in these files have asked for, and the files themselves."""
    found = Reads(files={str(path) for path in files})
    loaded = imported_files.loaded()
    for path in sorted(files):
        if path.suffix == ".py" and path in loaded and not _seen(path):
            found.unknown.add(f"{path.name} was imported before its reads could be noted")
        if path.suffix == ".py" and path not in _BUILDERS:
            found.unknown |= {
                f"{path.name} {what} when it is imported" for what in imported_files.asked_at_import(path)
            }
        for reads in (WATCH.own.get(str(path)), WATCH.shared.get(str(path)) if shared else None):
            if reads is not None:
                found.add(reads)
    found.files = {path for path in found.files if _is_part(path) and not Path(path).is_dir()}
    found.folders = {path for path in found.folders if _is_part(path)}
    return found


def _seen(path: Path) -> bool:
    """Return whether it is known what a module read when it was imported."""
    return str(path) in WATCH.heard or path.is_relative_to(SUITES)


@functools.cache
def _is_part(path: str) -> bool:
    """Return whether a file that was opened, or a folder that was listed, may decide: not a system's file."""
    place = Path(path)
    return place.parts[1] not in ("proc", "sys", "dev") and counts(place.resolve())
