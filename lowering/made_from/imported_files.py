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
from types import ModuleType

from ethos_hil.lowering.made_from.chance import requests_of_statements
from ethos_hil.lowering.made_from.project_files import of_project

_DYNAMIC = frozenset({"import_module", "__import__"})
"""A module that calls one of these may import something that its source does not name."""
_ARGUMENTS = frozenset({"argv", "orig_argv", "parse_args", "parse_known_args"})
_UNSEEN = frozenset({"av", "cv2", "decord", "duckdb", "h5py", "lmdb", "netCDF4", "polars", "pyarrow", "safetensors",
                     "soundfile", "tables"})  # fmt: skip
"""Packages whose own code, written in C or Rust, opens files. Python does not report that."""


def loaded_files() -> dict[Path, ModuleType]:
    """Return the imported modules of the project, by file. A command of the environment is not one of them, though it
    may lie in the project's folder.
    """
    modules = {}
    command = sys.modules.get("__main__")
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if module is command and isinstance(file, str) and Path(file).is_relative_to(sys.prefix):
            continue
        path = of_project(file) if isinstance(file, str) else None
        if path is not None:
            modules[path] = module
    return modules


def imports_of(path: Path, package: str, folder: Path | None = None) -> tuple[set[Path], bool]:
    """Return the project's files that a file's import statements name, and whether it may import others.

    Args:
        path: the file.
        package: the package of its module, "" for none.
        folder: a folder that is searched first, as Python does for a script's.
    """
    if path.suffix != ".py":
        return set(), False
    names, dynamic, *_ = _source(path, path.stat().st_mtime_ns)
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


def requests_at_import(path: Path) -> frozenset[str]:
    """Return what importing a file asks of clocks and generators of random numbers, as ends of sentences."""
    return _source(path, path.stat().st_mtime_ns)[2]


def requests_anywhere(path: Path) -> frozenset[str]:
    """Return what a file's code asks for that no digest tells, whether it runs or not, as ends of sentences."""
    return _source(path, path.stat().st_mtime_ns)[3]


@functools.lru_cache(maxsize=1000)
def _source(path: Path, _modified: int) -> tuple[frozenset[str], bool, frozenset[str], frozenset[str]]:
    """Return the names of modules, or possible modules, that a file imports anywhere; whether it imports by other
    means; and what `requests_at_import` and `requests_anywhere` return.

    Relative names start with dots. What is imported for type checkers only, or when the file is run as a script, does
    not count.
    """
    names: set[str] = set()
    dynamic = False
    words: set[str] = set()
    tree = ast.parse(path.read_bytes())
    waiting: list[ast.AST] = [tree]
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
            words |= {alias.name for alias in node.names if base == "sys"}
        elif isinstance(node, ast.Name | ast.Attribute):
            word = node.id if isinstance(node, ast.Name) else node.attr
            dynamic |= word in _DYNAMIC
            words |= {word} if isinstance(node, ast.Attribute) else set()
        waiting += ast.iter_child_nodes(node)
    asked = {f"uses {name}, which reads files unseen" for name in _UNSEEN & {name.partition(".")[0] for name in names}}
    asked |= {"reads the command line"} if words & _ARGUMENTS else set()
    return frozenset(names), dynamic, requests_of_statements(tree), frozenset(asked)


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
