"""The versions of the tools that make an artifact."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from functools import cache
from pathlib import Path

from ethos_hil.lowering.upstream.patches.switch import patches_on

_PACKAGES = ("torch", "executorch", "torchao", "ethos-u-vela", "tosa-tools", "flatbuffers", "numpy")


def versions() -> dict[str, str]:
    """Return versions by package name, "missing" for one that is not installed; also Python's and this package's own.

    "ethos-hil-lowering" is the digest of this package's source, with all its subpackages: other code makes another
    artifact. "ethos-hil-patches" is "on", or "off" with ETHOS_HIL_PATCHES=off: without the patches of upstream an
    artifact may say less.

    Raises:
        UsageError: ETHOS_HIL_PATCHES has another value.
    """
    return {**_installed(), "ethos-hil-patches": "on" if patches_on() else "off"}


@cache
def _installed() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "missing"
    found["ethos-hil-lowering"] = source_digest(Path(__file__).parent)[:16]
    return found


def source_digest(folder: Path) -> str:
    """Return the SHA-256 of all modules below a folder, by their paths in it; hexadecimal.

    Tests are left out: they make no artifact.
    """
    digest = hashlib.sha256()
    modules = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    for name, path in sorted(modules.items()):
        if "tests" not in name.split("/"):
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
