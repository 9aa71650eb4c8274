"""The files that a case was made from: a change in one of them may change the model.

These are the file that declares it, the project's modules that this file imports, directly or indirectly, the
`conftest.py`s above it, and data files that were read while the model was built and lowered. Installed packages are not
listed: their versions are compared too. Neither are `lowering`, whose digest is among the versions, and `harness` and
`results`, which do not affect a model.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ethos_hil.results.regular_file import read_bytes
from ethos_hil.suites.trial.session_start import BEGAN

INSTALLED = tuple({Path(sysconfig.get_path(n)).resolve() for n in ("stdlib", "platstdlib", "purelib", "platlib")})
_SUITES = Path(__file__).resolve().parents[1]
_BUILDERS = (_SUITES / "trial/build.py", _SUITES / "declare/case.py")
"""The parts of this package that turn a declaration into a model."""
_NO_PART = tuple(_SUITES.parent / name for name in ("harness", "results", "lowering", "src/ethos_hil/__init__.py"))
_PACKAGES = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages; an environment may see those of another."""
_DYNAMIC = frozenset({"import_module", "__import__"})
"""A module that calls one of these may import something that its source does not name."""


def files_of(origins: Iterable[Path], opened: Iterable[Path] = ()) -> dict[str, str]:
    """Return the digests, by absolute path, of the files that a case was made from.

    Call it in the process that built the model: only imported modules are examined.

    Args:
        origins: the files that declare the case and make its model.
        opened: the paths from `reading`.
    """
    loaded = _loaded()
    first = {path.resolve() for path in origins}
    above = {folder for path in first for folder in path.parents}
    files = {*first, *_BUILDERS, *(path for path in loaded if path.name == "conftest.py" and path.parent in above)}
    waiting = list(files)
    while waiting:
        path = waiting.pop()
        imported = _imports(path, path.stat().st_mtime_ns)
        if imported is None:
            found = set(loaded)
        else:
            package = _package(loaded.get(path))
            found = {file for name in imported for file in _files_of_name(name, package)}
        new = {file for file in found if file in loaded} - files
        files |= new
        waiting += new
    data = {path for path in (one.resolve() for one in opened) if path.is_file() and _is_data(path)}
    return {str(path): digest_of(path) for path in sorted(files | data)}


def unchanged(files: dict[str, str]) -> bool:
    """Return whether every file still has its digest."""
    try:
        return all(digest_of(Path(path)) == digest for path, digest in files.items())
    except OSError:
        return False


def unchanged_in_session(files: Iterable[str]) -> bool:
    """Return whether no file changed since the session began. If one did, its old text may have been imported."""
    try:
        return all(Path(path).stat().st_mtime_ns < BEGAN for path in files)
    except OSError:
        return False


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        OSError: the file cannot be read.
    """
    status = path.stat()
    return _digest(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1000)
def _digest(path: Path, _modified: int, _size: int) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


@contextmanager
def reading() -> Iterator[set[Path]]:
    """Collect the path of every file that this process opens inside the block, in the set that it yields."""
    _listen()
    _opened.append(set())
    try:
        yield _opened[-1]
    finally:
        _opened.pop()


_opened: list[set[Path]] = []


@functools.cache
def _listen() -> None:
    """Add an audit hook. It cannot be removed, so it is added once, and only where something is built."""

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and _opened and isinstance(arguments[0], str | bytes):
            _opened[-1].add(Path(os.fsdecode(arguments[0])).absolute())

    sys.addaudithook(heard)


def _counts(path: Path) -> bool:
    if path.is_relative_to(_SUITES):
        return True  # models of ours, also where this is installed: a new build may have the old version
    if not _PACKAGES.isdisjoint(path.parts):
        return False
    return not any(path.is_relative_to(root) for root in (*INSTALLED, *_NO_PART))


def _is_data(path: Path) -> bool:
    """Return whether a file is data: not source (which is imported, and also read to be quoted), and not a system
    file.
    """
    return path.suffix not in (".py", ".pyc") and path.parts[1] not in ("proc", "sys", "dev") and _counts(path)


def _loaded() -> dict[Path, ModuleType]:
    """Return the imported modules of the project, by file."""
    found = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        path = _of_project(file) if isinstance(file, str) else None
        if path is not None:
            found[path] = module
    return found


@functools.cache  # torch has thousands of modules, and every case calls this again
def _of_project(file: str) -> Path | None:
    """Return a module's file if it belongs to the project, else None."""
    path = Path(file)
    if not path.is_absolute():
        return None
    path = path.resolve()
    return path if _counts(path) else None


def _package(module: ModuleType | None) -> str:
    return getattr(module, "__package__", None) or ""


@functools.lru_cache(maxsize=1000)
def _imports(path: Path, _modified: int) -> frozenset[str] | None:
    """Return the names of modules, or possible modules, that a file imports anywhere; None if they cannot be
    determined.

    Relative ones begin with dots.
    """
    if path.suffix != ".py":
        return frozenset()
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names |= {base, *(f"{base}{'' if base.endswith('.') else '.'}{alias.name}" for alias in node.names)}
        elif _DYNAMIC & {getattr(node, "id", None), getattr(node, "attr", None)}:
            return None
    return frozenset(names)


def _files_of_name(name: str, package: str) -> Iterator[Path]:
    """Return the files of the module called `name` and of its parent packages, as far as they are imported."""
    level = len(name) - len(name.lstrip("."))
    if level:
        parents = package.split(".")
        name = ".".join([*parents[: len(parents) - level + 1], name[level:]]).rstrip(".")
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        file = getattr(sys.modules.get(".".join(parts[:length])), "__file__", None)
        if isinstance(file, str):
            yield Path(file).resolve()
