"""What a case was made from: a change in any of it may change the model.

This is the file that declares the case, the project's modules that this file imports, directly or indirectly, the
`conftest.py`s above it, and the files that their code opened when they were imported and while the model was built
(`ethos_hil.lowering.made_from.file_watch`). Installed packages are not listed: their versions are compared too. Neither
are `lowering`, whose digest is among the versions, and `harness` and `results`, which do not affect a model.

Environment variables, clocks, processes and the network are not watched. Code that depends on them says so
(`depends_on`).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.files import opened, read_text, write_whole
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.contents import touch
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.cache.versions import versions
from ethos_hil.lowering.made_from.file_watch import (
    BEGAN,
    SUITES,
    WATCH,
    Reads,
    counts,
    digest_of_value,
    loaded_files,
    of_project,
    package_folders,
)

_BUILDERS = (SUITES / "trial/build.py", *(SUITES / "declare").glob("*.py"))
"""The parts of this package that turn a declaration into a model, with all that they import of it."""
_NATIVE = (".arrow", ".bin", ".db", ".gguf", ".h5", ".hdf5", ".nc", ".onnx", ".parquet", ".safetensors", ".tflite")
"""How the names of files end that packages read in C or Rust, which Python does not report."""
_MISSING = "missing"
"""In place of the digest of a file that was looked for and is not there."""


@dataclass(frozen=True)
class Fingerprint:
    """What a case was made from.

    Attributes:
        files: digests of files by absolute path; "missing" for a file that was not there.
        variables: digests of environment variables by name, as in `Reads`.
        unknown: what else decided, as sentences; empty where all is known.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def why_outdated(self, today: Reads) -> str | None:
        """Return what differs from `today`, as `read_at_import` returns it, and from the disk; None if nothing does."""
        if self.unknown:
            return self.unknown[0]
        if today.unknown:
            return min(today.unknown)
        lacking = sorted(today.files - self.files.keys())
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
    """Return what importing a case's files has opened: the least that it was made from.

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
        built: what was opened while it was built and lowered.
        folder: the folder that Python searches first for what they import, directly or not; by default the working
            directory, for the origins alone.
    """
    modules = _closure(tuple(origins), folder, loaded_too=True)
    reads = _reads_of(modules, shared=True)
    if built is not None:
        reads.add(built)
    # What the tools looked for and did not find, and their temporary files, decide nothing.
    reads.files |= {path for path in reads.passing if Path(path).is_file()}
    unknown = set(reads.unknown)
    if not reads.declared:
        unknown |= {
            f"{path.name} uses {name}, which reads files unseen: name them with ethos_hil.depends_on"
            for path in modules
            if path.suffix == ".py"
            for name in unseen_packages(path)
        }
    files = {}
    for path in sorted(reads.files | _beside(reads.files)):
        if _is_part(path) and not Path(path).is_dir():
            files[path] = state_of(path)
            if files[path] == "":
                unknown.add(f"{path} is not a file")
    return Fingerprint(files, dict(sorted(reads.variables.items())), tuple(sorted(unknown)))


def _beside(files: Iterable[str]) -> set[str]:
    """Return the files that native code may have read beside one that Python read: weights beside a description."""
    folders = {Path(path).parent for path in files if not path.endswith(".py") and _is_part(path)}
    entries = (entry for folder in folders if folder.is_dir() for entry in folder.iterdir())
    return {str(entry) for entry in entries if entry.suffix in _NATIVE}


def changed_file(files: Iterable[str]) -> str | None:
    """Return a file that changed since the session started, or None. Its old text may have been imported."""
    for path in files:
        try:
            status = Path(path).stat()
        except FileNotFoundError:
            continue  # its state is "missing"
        except OSError:
            return path
        # A file that is renamed keeps the time of its modification, but not that of its change. Anybody can give a file
        # a time of modification in the future; it tells nothing.
        if status.st_ctime_ns >= BEGAN or BEGAN <= status.st_mtime_ns <= time.time_ns():
            return path
    return None


def state_of(path: str | Path) -> str:
    """Return the digest of a file; "missing", or "" for anything else."""
    try:
        status = Path(path).stat()
        if stat.S_ISREG(status.st_mode):
            return _digest(str(path), status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
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

    With `loaded_too`, a module that imports by a computed name counts all that are imported.
    """
    loaded = loaded_files()
    first = {path.resolve() for path in origins}
    above = {folder for path in first for folder in path.parents}
    files = {*first, *_BUILDERS, *(path for path in (folder / "conftest.py" for folder in above) if path.is_file())}
    waiting = [path for path in files if path not in _BUILDERS]
    while waiting:
        path = waiting.pop()
        package = getattr(loaded.get(path), "__package__", None) or ""
        imported, dynamic = imports_of(path, package, folder or (Path.cwd() if path in first else None))
        if dynamic and loaded_too:
            imported |= set(loaded)
        for reads in (WATCH.own.get(str(path)), WATCH.shared.get(str(path)) if loaded_too else None):
            if reads is not None:  # also what `runpy` and `importlib.util` executed
                imported |= {Path(name) for name in reads.files if name.endswith(".py") and _is_part(name)}
        new = {file for file in imported if file.is_file()} - files
        files |= new
        waiting += new
    return files


def _reads_of(files: set[Path], *, shared: bool) -> Reads:
    """Return what the modules in these files have opened, and the files themselves."""
    total = Reads(files={str(path) for path in files})
    loaded = loaded_files()
    for path in sorted(files):
        module = loaded.get(path)
        unseen = module is not None and WATCH.unseen.get(module.__name__) is module
        if unseen and not path.is_relative_to(SUITES):
            total.unknown.add(f"{path.name} was imported before its reads could be noted")
        for reads in (WATCH.own.get(str(path)), WATCH.shared.get(str(path)) if shared else None):
            if reads is not None:
                total.add(reads)
    total.files = {path for path in total.files if _is_part(path) and not Path(path).is_dir()}
    return total


@functools.cache
def _is_part(path: str) -> bool:
    """Return whether a file that was opened may decide: not one of an installed package."""
    return counts(Path(path).resolve())


# A memo that finds a case's artifact again without importing torch.
#
# The artifact cache's key depends on the exported graph, which takes torch and half a second to make. The case's
# declaration and what its model is made from decide that graph. So for each case and target the cache also keeps the
# artifact's key, with the fingerprint of what the case was made from. The key is valid while nothing of that differs;
# otherwise it is computed again. A case of which not all is known has no memo.

_MOST_MEMO = 10 << 20
"""Largest size of a memo, bytes."""


@dataclass(frozen=True)
class Found:
    """An artifact, and what its model was made from.

    Attributes:
        artifact: the artifact.
        made_from: what its model was made from.
        told: what else is to be known of the model, as JSON.
    """

    artifact: Artifact
    made_from: Fingerprint
    told: Mapping[str, Any] = field(default_factory=dict)


def find_artifact(cache: Cache, name: str, target: Sequence[str], today: Reads) -> Found | None:
    """Return the artifact of the case called `name` for `target`, or None if what it was made from has changed.

    It also returns None if the cache has removed the artifact since.

    Args:
        cache: the cache.
        name: the case's name, and its file's.
        target: the properties of its target that decide the artifact.
        today: what importing the case's files asked for in this session.
    """
    path = _memo_path(cache, name, target)
    try:
        entry = json.loads(read_text(path, most=_MOST_MEMO))
        made_from = Fingerprint(dict(entry["files"]), dict(entry["variables"]))
        artifact = cache.get(entry["key"]) if made_from.why_outdated(today) is None else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if artifact is None:
        return None
    touch(path)  # the cache removes the least recently used ones
    return Found(artifact, made_from, entry.get("told", {}))


def keep_artifact(cache: Cache, name: str, target: Sequence[str], known: Found) -> None:
    """Remember the artifact of the case, unless what it was made from is not known or changes during the test."""
    made_from = known.made_from
    if made_from.unknown or changed_file(made_from.files) is not None:
        return
    path = _memo_path(cache, name, target)
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {
        "key": known.artifact.key,
        "files": dict(made_from.files),
        "variables": dict(made_from.variables),
        "told": dict(known.told),
    }
    write_whole(path, json.dumps(entry))


def _memo_path(cache: Cache, name: str, target: Sequence[str]) -> Path:
    identity = json.dumps([name, list(target), versions(), packages()])
    return cache.root / "cases" / hashlib.sha256(identity.encode()).hexdigest()


def packages() -> str:
    """Return a digest of the installed packages, their versions, and when each was installed."""
    return _digest_of_packages(package_folders())


@functools.cache
def _digest_of_packages(folders: tuple[Path, ...]) -> str:
    names = []
    for folder in folders:
        for path in folder.glob("*.dist-info"):
            try:
                names.append(f"{path.name} {(path / 'RECORD').stat().st_mtime_ns}")
            except OSError:
                names.append(path.name)
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


# The project's files that a file imports, by its source: also those that it has not imported yet.
#
# A function may import a module only when a model is built, so what is imported at the moment is not enough to tell
# what a case depends on.

_DYNAMIC = frozenset({"import_module", "__import__"})
"""A module that calls one of these may import something that its source does not name."""
_UNSEEN = frozenset({"av", "cv2", "decord", "duckdb", "h5py", "lmdb", "netCDF4", "polars", "pyarrow", "safetensors",
                     "soundfile", "tables"})  # fmt: skip
"""Packages whose own code, written in C or Rust, opens files. Python does not report that."""


def imports_of(path: Path, package: str, folder: Path | None = None) -> tuple[set[Path], bool]:
    """Return the project's files that a file's import statements name, and whether it may import others.

    Args:
        path: the file.
        package: the package of its module, "" for none.
        folder: a folder that is searched first, as Python does for a script's.
    """
    if path.suffix != ".py":
        return set(), False
    names, dynamic, _ = _source(path, path.stat().st_mtime_ns)
    search = (str(folder), *sys.path) if folder is not None else tuple(sys.path)
    return {file for name in names for file in _files_of_name(name, package, search)}, dynamic


def file_of_module(name: str, folder: Path) -> Path | None:
    """Return the file of a module that may not be imported yet, or None if there is none or it is not the project's.

    Args:
        name: its full name.
        folder: a folder that is searched first.
    """
    *_, last = [None, *_find(name, (str(folder), *sys.path))]
    return last


def unseen_packages(path: Path) -> frozenset[str]:
    """Return the packages whose native code reads files unseen, as far as a file's import statements name them."""
    return _source(path, path.stat().st_mtime_ns)[2]


@functools.lru_cache(maxsize=1000)
def _source(path: Path, _modified: int) -> tuple[frozenset[str], bool, frozenset[str]]:
    """Return the names of modules, or possible modules, that a file imports anywhere; whether it imports by other
    means; and what `unseen_packages` returns. A file that is not Python imports nothing.

    Relative names start with dots. What is imported for type checkers only, or when the file is run as a script, does
    not count.
    """
    names: set[str] = set()
    dynamic = False
    try:
        waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    except (SyntaxError, ValueError):
        return frozenset(), False, frozenset()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _is_left_out(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names |= {base, *(f"{base}{'' if base.endswith('.') else '.'}{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Name | ast.Attribute):
            word = node.id if isinstance(node, ast.Name) else node.attr
            dynamic |= word in _DYNAMIC
        waiting += ast.iter_child_nodes(node)
    return frozenset(names), dynamic, _UNSEEN & {name.partition(".")[0] for name in names}


def _is_left_out(test: ast.expr) -> bool:
    """Return whether a condition holds for type checkers only, or where the file is run as a script."""
    if isinstance(test, ast.Compare):
        return getattr(test.left, "id", None) == "__name__"
    return (getattr(test, "id", None) or getattr(test, "attr", None)) == "TYPE_CHECKING"


def _files_of_name(name: str, package: str, search: tuple[str, ...]) -> Iterator[Path]:
    """Return the files of the module called `name` and of its parent packages, as far as they are the project's."""
    level = len(name) - len(name.lstrip("."))
    if level:
        parents = package.split(".")
        name = ".".join([*parents[: len(parents) - level + 1], name[level:]]).rstrip(".")
    if name and name.partition(".")[0] not in sys.stdlib_module_names:
        yield from (path for path in _find(name, search) if path is not None)


def _find(name: str, search: tuple[str, ...]) -> Iterator[Path | None]:
    """Return the files of a module's parents and its own, until one is not found; None if it is not the project's."""
    parts = name.split(".")
    places: tuple[str, ...] | None = search
    for length in range(1, len(parts) + 1):
        module = sys.modules.get(".".join(parts[:length]))
        if module is not None:
            file = getattr(module, "__file__", None)
            places = tuple(getattr(module, "__path__", ()))
        elif places:
            file, places = _spec(".".join(parts[:length]), places)
        else:
            return
        if file is None and not places:
            return
        yield of_project(file) if isinstance(file, str) else None


@functools.lru_cache(maxsize=4000)
def _spec(name: str, places: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the file and the folders of a module that is not imported, without importing anything.

    Python itself cannot do so for a package without `__init__.py` below another package: it raises KeyError (CPython
    3.11, importlib._bootstrap_external._NamespacePath).
    """
    try:
        spec = PathFinder.find_spec(name, list(places))
    except (ImportError, ValueError, OSError):
        return None, ()
    except KeyError:
        folders = (Path(place, name.rpartition(".")[2]) for place in places)
        return None, tuple(str(folder) for folder in folders if folder.is_dir())
    if spec is None:
        return None, ()
    return (spec.origin if spec.has_location else None), tuple(spec.submodule_search_locations or ())
