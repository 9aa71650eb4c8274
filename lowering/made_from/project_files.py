"""Whose code a file is: the project's, this package's own, or an installed package's.

Every pytest session of the environment imports this module, so it imports nothing slow.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parents[2]
SUITES = _ROOT / "suites"
"""This package's models, and the machinery that makes tests of declarations."""
_NO_PART = tuple(f"{_ROOT}/{name}/" for name in ("harness", "results", "lowering", "src/ethos_hil"))
"""Parts of this package that no model is made of. `lowering` has a digest among the versions."""
MACHINERY = (*_NO_PART, *(f"{SUITES}/{name}/" for name in ("declare", "plugin", "trial")))
"""Parts of this package whose own reads decide nothing, or are compared in other ways."""
_PACKAGES = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages; an environment may see those of another."""


@functools.cache
def installed_paths() -> tuple[Path, ...]:
    """Return the folders of Python's library and of installed packages."""
    return tuple({Path(sysconfig.get_path(n)).resolve() for n in ("stdlib", "platstdlib", "purelib", "platlib")})


@functools.cache
def _path_starts() -> tuple[str, ...]:
    return tuple(f"{folder}/" for folder in installed_paths())


def _inside(path: Path, roots: tuple[str, ...]) -> bool:
    """Return whether `path` is one of the roots, which end with a slash, or below one. `is_relative_to` is slower."""
    return f"{path}/".startswith(roots)


def counts(path: Path) -> bool:
    """Return whether a model may be made of this file: it is the project's, or one of this package's models.

    Args:
        path: a path without links.
    """
    if _inside(path, (f"{SUITES}/",)):
        return True  # models of ours, also where this is installed: a new build may have the old version
    if not _PACKAGES.isdisjoint(path.parts):
        return False
    return not _inside(path, (*_path_starts(), *_NO_PART))


@functools.cache
def _beginnings() -> tuple[str, ...]:
    """Return how the paths of installed modules start. Most modules are told by it; looking for links takes longer."""
    return tuple(folder for folder in _path_starts() if not _inside(SUITES, (folder,)))


@functools.cache  # torch has thousands of modules, and every case asks again
def of_project(file: str) -> Path | None:
    """Return a module's file, without links, if a model may be made of it, else None."""
    if not file.startswith("/") or file.startswith(_beginnings()):
        return None
    folder, _, name = file.rpartition("/")
    path = Path(file).resolve() if Path(file).is_symlink() else _folder(folder) / name
    return path if counts(path) else None


@functools.cache
def _folder(name: str) -> Path:
    """Return a folder without links. Modules share folders, and to look for links takes long."""
    return Path(name).resolve()


def is_installed(path: str) -> bool:
    """Return whether a path is that of an installed package or of Python's library, by how it starts."""
    return path.startswith(_beginnings())


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
