"""Whose code a file is: the project's, this package's own, or an installed package's.

Every pytest session of the environment imports this module, so it imports nothing slow.
"""

from __future__ import annotations

import enum
import functools
import sysconfig
from pathlib import Path

_SUITES = Path(__file__).resolve().parents[1]
_ROOT = _SUITES.parent
_NO_PART = tuple(_ROOT / name for name in ("harness", "results", "lowering", "src/ethos_hil/__init__.py"))
"""Parts of this package that no model is made of. `lowering` has a digest among the versions."""
_MACHINERY = (*_NO_PART, *(_SUITES / name for name in ("declare", "plugin", "trial")))
"""Parts of this package whose own reads decide nothing, or are compared in other ways."""
_PACKAGES = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages; an environment may see those of another."""


class Owner(enum.Enum):
    """Whose code a frame runs."""

    PROJECT = "project"
    MACHINERY = "machinery"
    """This package."""
    IMPORT = "import"
    """Python's import system."""
    QUOTING = "quoting"
    """Python's `linecache`: it reads source to show it."""
    CALLER = "caller"
    """pluggy: it calls the hooks of pytest's plugins."""
    PACKAGE = "package"
    """An installed package."""
    LIBRARY = "library"
    """Python's library, and code without a file."""


@functools.cache
def installed() -> tuple[Path, ...]:
    """Return the folders of Python's library and of installed packages."""
    return tuple({Path(sysconfig.get_path(n)).resolve() for n in ("stdlib", "platstdlib", "purelib", "platlib")})


def counts(path: Path) -> bool:
    """Return whether a model may be made of this file: it is the project's, or one of this package's models.

    Args:
        path: a path without links.
    """
    if path.is_relative_to(_SUITES):
        return True  # models of ours, also where this is installed: a new build may have the old version
    if not _PACKAGES.isdisjoint(path.parts):
        return False
    return not any(path.is_relative_to(root) for root in (*installed(), *_NO_PART))


@functools.cache
def _beginnings() -> tuple[str, ...]:
    """Return how the paths of installed modules begin. Most modules are told by it; looking for links takes longer."""
    return tuple(f"{folder}/" for folder in installed() if not _SUITES.is_relative_to(folder))


@functools.cache  # torch has thousands of modules, and every case asks again
def of_project(file: str) -> Path | None:
    """Return a module's file, without links, if a model may be made of it, else None."""
    if not file.startswith("/") or file.startswith(_beginnings()):
        return None
    path = Path(file).resolve()
    return path if counts(path) else None


@functools.cache
def owner_of(file: str) -> tuple[Owner, str]:
    """Return whose code it is, by the name that a code object has for its file; for the project's the path without
    links, else "".
    """
    if file.startswith("<"):
        return (Owner.IMPORT if file.startswith("<frozen importlib") else Owner.LIBRARY), ""
    path = Path(file).resolve()
    if any(path.is_relative_to(part) for part in _MACHINERY):
        return Owner.MACHINERY, ""
    if counts(path):
        return (Owner.PROJECT, str(path)) if path.is_file() else (Owner.LIBRARY, "")
    if not _PACKAGES.isdisjoint(path.parts):
        return (Owner.CALLER if path.parent.name == "pluggy" else Owner.PACKAGE), ""
    return (Owner.QUOTING if path.name == "linecache.py" else Owner.LIBRARY), ""
