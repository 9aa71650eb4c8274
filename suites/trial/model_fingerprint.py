"""What a case was made from: the files whose change may change the model.

These are the file that declares it, the project's modules that this file imports, by themselves or through one another,
the `conftest.py`s above it, and data files that were read while the model was built and lowered. Installed packages are
not listed: their versions are part of whatever this is compared by. Neither are `lowering`, whose digest is among the
versions, and `harness` and `results`, which know no model.
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

from ethos_hil.suites.trial.session_start import BEGAN

INSTALLED = tuple({Path(sysconfig.get_path(n)).resolve() for n in ("stdlib", "platstdlib", "purelib", "platlib")})
_SUITES = Path(__file__).resolve().parents[1]
_BUILDERS = (_SUITES / "trial/build.py", _SUITES / "declare/case.py")
"""Of ours, what turns a declaration into a model."""
_NO_PART = tuple(_SUITES.parent / name for name in ("harness", "results", "lowering", "src/ethos_hil/__init__.py"))
_PACKAGES = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages; an environment may see those of another."""
_DYNAMIC = frozenset({"import_module", "__import__"})
"""Who calls one of these may import what cannot be read from his source."""


def files_of(origins: Iterable[Path], opened: Iterable[Path] = ()) -> dict[str, str]:
    """Digests, by absolute path, of the files that a case was made from.

    Call it in the process that built the model: only modules that were imported are looked for.

    Args:
        origins: the files that declare the case and make its model.
        opened: what `reading` found.
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
    """Whether every file has the digest it had."""
    try:
        return all(digest_of(Path(path)) == digest for path, digest in files.items())
    except OSError:
        return False


def unchanged_in_session(files: Iterable[str]) -> bool:
    """Whether none was written since the session began: what was imported of it may be the text it had before."""
    try:
        return all(Path(path).stat().st_mtime_ns < BEGAN for path in files)
    except OSError:
        return False


def digest_of(path: Path) -> str:
    """SHA-256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    status = path.stat()
    return _digest(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1000)
def _digest(path: Path, _modified: int, _size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def reading() -> Iterator[set[Path]]:
    """Notes every file that this process opens while inside, in the set it gives."""
    _listen()
    _opened.append(set())
    try:
        yield _opened[-1]
    finally:
        _opened.pop()


_opened: list[set[Path]] = []


@functools.cache
def _listen() -> None:
    """An audit hook cannot be removed, so it is added once, and only where something is built."""

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
    """Not source, which is imported, and read besides only to be quoted; and no window into the system."""
    return path.suffix not in (".py", ".pyc") and path.parts[1] not in ("proc", "sys", "dev") and _counts(path)


def _loaded() -> dict[Path, ModuleType]:
    """The imported modules of the project, by file."""
    found = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        path = _of_project(file) if isinstance(file, str) else None
        if path is not None:
            found[path] = module
    return found


@functools.cache  # torch comes with thousands of modules, and every case asks again
def _of_project(file: str) -> Path | None:
    """A module's file, if it is one of the project."""
    path = Path(file)
    if not path.is_absolute():
        return None
    path = path.resolve()
    return path if _counts(path) else None


def _package(module: ModuleType | None) -> str:
    return getattr(module, "__package__", None) or ""


@functools.lru_cache(maxsize=1000)
def _imports(path: Path, _modified: int) -> frozenset[str] | None:
    """Names of modules, and of what may be one, that a file imports anywhere in it; None when it cannot be told.

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
    """The files of the module called `name` and of the packages it is in, as far as they were imported."""
    level = len(name) - len(name.lstrip("."))
    if level:
        parents = package.split(".")
        name = ".".join([*parents[: len(parents) - level + 1], name[level:]]).rstrip(".")
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        file = getattr(sys.modules.get(".".join(parts[:length])), "__file__", None)
        if isinstance(file, str):
            yield Path(file).resolve()
