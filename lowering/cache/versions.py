"""The versions of the tools that make an artifact."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ethos_hil.base import npu
from ethos_hil.base.environment import SET, VELA, version
from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.upstream.patches.patch import depth

NOT_SHIPPED = frozenset({"tests", "testing"})
"""Folders that a wheel does not have (pyproject.toml, `packages.find`)."""
_PARTS = (Path(__file__).parents[1], Path(npu.__file__).parent)
"""What decides how models are lowered: this room, and the descriptions of NPUs."""


def versions() -> dict[str, str]:
    """Return versions by package name, "missing" for one that is not installed; also Python's and this package's own.

    "ethos-hil-lowering" is the digest of this package's source, with all its subpackages, as it was when this process
    started to use it: other code makes another artifact. "ethos-hil-installed" is the digest of what pip says that it
    installed of the packages, and of those of their Python sources that lower: two builds of one version may differ,
    and someone may try an idea in the installed files. Of a package that is installed editable it has the sizes and
    times of the files of its checkout. "ethos-hil-patches" is "on", "off" with ETHOS_HIL_PATCHES=off, or "bare"
    (`ethos_hil.lowering.upstream.patches.patch.depth`): without the patches of upstream an artifact may say less.

    Raises:
        UsageError: ETHOS_HIL_PATCHES has another value.
    """
    return {**_find_versions(), "ethos-hil-patches": depth()}


def check_source_unchanged() -> None:
    """Check that the code on disk is still what `versions` says. Modules are imported late: they may be newer.

    Raises:
        ToolError: it was changed since.
    """
    if source_digest(*_PARTS)[:16] != _SOURCE:
        raise ToolError(
            "the code of ethos_hil.lowering was changed after this process started to use it",
            hint="start it again; nothing was kept",
        )


@cache
def _find_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    records = hashlib.sha256()
    for package in SET:
        versions[package] = version(package) or "missing"
        if version(package) is not None:
            installed = importlib.metadata.distribution(package)
            records.update(installed_digest(installed.read_text("RECORD") or "").encode())
            records.update(_checkout_digest(installed.read_text("direct_url.json") or "").encode())
            folders = (Path(str(installed.locate_file(folder))) for folder in _THAT_LOWER.get(package, ()))
            records.update(source_digest(*folders, left_out=_TESTS).encode())
    versions["ethos-hil-installed"] = records.hexdigest()[:16]
    versions["ethos-hil-lowering"] = _SOURCE
    return versions


def installed_digest(record: str) -> str:
    """Return the SHA-256 of an installed package's RECORD, apart from its lines about scripts; hexadecimal."""
    # Scripts are outside of site-packages, and contain the path of their environment.
    return hashlib.sha256(re.sub(r"\n\.\./[^\n]*", "", f"\n{record}").encode()).hexdigest()


_THAT_LOWER = {
    "executorch": ("executorch/backends/arm", "executorch/backends/transforms", "executorch/exir"),
    VELA: ("ethosu",),
}
"""The folders of packages whose Python sources decide a program. To read them takes some 20 ms."""
_TESTS = NOT_SHIPPED | {"test"}
_USED = (".py", ".so", ".json", ".yaml", ".fbs")
"""How the names of the files end that a package uses, and that an edit of its checkout changes."""
_NOT_ITS_OWN = ("third-party", "third_party", "node_modules")


def is_editable(direct_url: str) -> bool:
    """Return whether a package is its checkout itself, by its direct_url.json (PEP 610); "" where it has none."""
    return bool(json.loads(direct_url or "{}").get("dir_info", {}).get("editable"))


def _checkout_digest(direct_url: str) -> str:
    """Return the digest of the sizes and times of the files of an editable package's checkout; "" for another one.

    Args:
        direct_url: its direct_url.json (PEP 610); "" where it has none.
    """
    if not is_editable(direct_url):
        return ""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(unquote(urlsplit(json.loads(direct_url)["url"]).path)):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _NOT_ITS_OWN)
        for path in (Path(folder, name) for name in sorted(names) if name.endswith(_USED)):
            state = path.lstat()
            digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def source_digest(*folders: Path, left_out: frozenset[str] = NOT_SHIPPED) -> str:
    """Return the SHA-256 of all modules below folders, by their paths in them; hexadecimal.

    What no wheel has is left out, so that a checkout and the wheel of its commit are one state: tests make no artifact.
    """
    digest = hashlib.sha256()
    for folder in folders:
        modules: list[str] = []
        for place, inside, names in os.walk(folder):
            inside[:] = [name for name in inside if name not in left_out]
            modules += [f"{place}/{name}" for name in names if name.endswith(".py")]
        for module in sorted(modules):
            digest.update(module.removeprefix(f"{folder}").encode() + b"\0" + Path(module).read_bytes() + b"\0")
    return digest.hexdigest()


_SOURCE = source_digest(*_PARTS)[:16]
