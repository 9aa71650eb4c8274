"""What an overlay of a package has to have besides the package: the pins that the present environment does not meet."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_EXTRA = "ethos-u"
_NEVER = "torch"
"""What an overlay never replaces: ExecuTorch's libraries are built against one torch, and it is a gigabyte."""


def unmet(site: Path, package: str) -> tuple[str, ...]:
    """Return what a package in a folder requires, and neither the folder nor this environment has; torch excepted."""
    return tuple(str(each) for each in _wanted(site, package) if each.name != _NEVER)


def torch_wanted(site: Path, package: str) -> str | None:
    """Return which torch a package in a folder requires, if it is not the one of this environment; else None."""
    return next((str(each.specifier) for each in _wanted(site, package) if each.name == _NEVER), None)


def packages(site: Path) -> dict[str, str]:
    """Return the versions of the packages in a folder, by name."""
    return {each.metadata["Name"]: each.version for each in importlib.metadata.distributions(path=[str(site)])}


def _wanted(site: Path, package: str) -> Iterator[Requirement]:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    here = {canonicalize_name(name): version for name, version in packages(site).items()}
    found = next(iter(importlib.metadata.distributions(name=package, path=[str(site)])))
    for text in found.requires or ():
        wanted = Requirement(text)
        wanted.name = canonicalize_name(wanted.name)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": _EXTRA}):
            continue
        version = here.get(wanted.name) or _installed(wanted.name)
        if version is None or not wanted.specifier.contains(version, prereleases=True):
            wanted.marker = None
            yield wanted


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
