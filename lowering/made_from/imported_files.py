"""The project's files that a file imports, by its source: also those that it has not imported yet.

A function may import a module only when a model is built, so what is imported at the moment is not enough to tell what
a case depends on.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from ethos_hil.lowering.made_from.project_files import of_project

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
        if isinstance(node, ast.If) and (_type_checking(node.test) or _as_script(node.test)):
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


def _type_checking(test: ast.expr) -> bool:
    return (getattr(test, "id", None) or getattr(test, "attr", None)) == "TYPE_CHECKING"


def _as_script(test: ast.expr) -> bool:
    """Return whether a condition is `__name__ == "__main__"`."""
    return isinstance(test, ast.Compare) and getattr(test.left, "id", None) == "__name__"


def _files_of_name(name: str, package: str, search: tuple[str, ...]) -> Iterator[Path]:
    """Return the files of the module called `name` and of its parent packages, as far as they are the project's."""
    level = len(name) - len(name.lstrip("."))
    if level:
        parents = package.split(".")
        name = ".".join([*parents[: len(parents) - level + 1], name[level:]]).rstrip(".")
    if name and name.partition(".")[0] not in sys.stdlib_module_names:
        yield from (path for path in _find(name, search) if path is not None)


def _find(name: str, search: tuple[str, ...]) -> Iterator[Path | None]:
    """Return the files of a module's parents and its own, until one is not found; None for one that is not the
    project's.
    """
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
