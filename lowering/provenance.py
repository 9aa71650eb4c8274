"""Which tools, in which versions, had a part in an artifact."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from functools import cache
from pathlib import Path

_PACKAGES = ("torch", "executorch", "torchao", "ethos-u-vela", "tosa-tools", "flatbuffers", "numpy")


@cache
def versions() -> dict[str, str]:
    """Versions by package name, "missing" for one that isn't installed; plus Python's and this package's own.

    "ethos-hil-lowering" is the digest of this package's source: an artifact made by other code is another artifact.
    """
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "missing"
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    found["ethos-hil-lowering"] = digest.hexdigest()[:16]
    return found
