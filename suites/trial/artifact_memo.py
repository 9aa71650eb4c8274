"""A memo that finds a case's artifact again without importing torch.

The artifact cache's key depends on the exported graph, which takes torch and half a second to make. The case's
declaration and the files of its model decide that graph. So for each case and target the cache also keeps the digests
of those files together with the artifact's key. The key is valid while every digest is; otherwise it is computed again.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache import Cache
from ethos_hil.lowering.cache_contents import touch
from ethos_hil.lowering.versions import versions
from ethos_hil.results.files import write_whole
from ethos_hil.results.regular_file import read_text
from ethos_hil.suites.trial.model_fingerprint import INSTALLED, unchanged, unchanged_in_session


@dataclass(frozen=True)
class Found:
    """An artifact with the digests, by path, of the files that its model was made from."""

    artifact: Artifact
    files: Mapping[str, str]


def find(cache: Cache, name: str, target: Sequence[str]) -> Found | None:
    """Return the artifact of the case called `name` for `target`, or None if a file that it was made from has changed.

    It also returns None if the cache has removed the artifact since.
    """
    path = _path(cache, name, target)
    try:
        entry = json.loads(read_text(path))
        files = dict(entry["files"])
        artifact = cache.get(entry["key"]) if unchanged(files) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if artifact is None:
        return None
    touch(path)  # the cache removes the least recently used ones
    return Found(artifact, files)


def keep(cache: Cache, name: str, target: Sequence[str], found: Found) -> None:
    """Remember the artifact of the case, unless one of its files changes during the test."""
    if not unchanged_in_session(found.files):
        return
    path = _path(cache, name, target)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({"key": found.artifact.key, "files": dict(found.files)}))


def _path(cache: Cache, name: str, target: Sequence[str]) -> Path:
    identity = json.dumps([name, list(target), versions(), packages()])
    return cache.root / "cases" / hashlib.sha256(identity.encode()).hexdigest()


@functools.cache
def packages() -> str:
    """Return a digest of the installed packages and their versions."""
    names = sorted(path.name for folder in INSTALLED for path in folder.glob("*.dist-info"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()
