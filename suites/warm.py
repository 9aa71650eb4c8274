"""Finding a case's artifact again without importing torch.

The artifact cache goes by the exported graph, which takes torch and half a second to make. What decides that graph is
the case's declaration and the files it was built from; so for each case and target the cache also keeps the digests of
those files together with the artifact's key. Where every digest still holds, so does the key; else it is made anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from lowering.artifact import Artifact
from lowering.cache import Cache
from lowering.provenance import versions
from results.files import write_whole

_INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_REPOSITORY = Path(__file__).resolve().parent.parent
_NOT_INPUT = tuple(_REPOSITORY / name for name in ("harness", "results", "lowering"))
"""Ours, and no part of any model. What lowers it is among the versions."""


def find(cache: Cache, name: str, target: Sequence[str]) -> Artifact | None:
    """The artifact of the case called `name` for `target`, if all it was built from is as it was."""
    try:
        entry = json.loads(_path(cache, name, target).read_text("utf-8"))
        unchanged = all(digest_of(Path(path)) == digest for path, digest in entry["files"].items())
        return cache.get(entry["key"]) if unchanged else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def keep(cache: Cache, name: str, target: Sequence[str], artifact: Artifact) -> None:
    """Remember that this is the artifact of the case. Call it in the process that built the case's module."""
    files = {str(path): digest_of(path) for path in _loaded()}
    path = _path(cache, name, target)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({"key": artifact.key, "files": files}))


def _path(cache: Cache, name: str, target: Sequence[str]) -> Path:
    identity = json.dumps([name, list(target), versions(), _packages()])
    return cache.root / "cases" / hashlib.sha256(identity.encode()).hexdigest()


@functools.cache
def _packages() -> str:
    """A digest of which packages are installed, in which versions."""
    names = sorted(path.name for folder in set(_INSTALLED) for path in folder.glob("*.dist-info"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def _loaded() -> list[Path]:
    """Files of the modules this process has imported, but for installed ones and our own machinery."""
    named = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    files = {Path(file).resolve() for file in named if file is not None and Path(file).is_absolute()}
    return sorted(path for path in files if not any(path.is_relative_to(root) for root in (*_INSTALLED, *_NOT_INPUT)))


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    status = path.stat()
    return _digest(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1000)
def _digest(path: Path, _modified: int, _size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
