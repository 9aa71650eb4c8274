"""A memo that finds a case's artifact again without importing torch.

The artifact cache's key depends on the exported graph, which takes torch and half a second to make. The case's
declaration and what its model is made from decide that graph. So for each case and target the cache also keeps the
artifact's key, with the fingerprint of what the case was made from. The key is valid while nothing of that differs;
otherwise it is computed again. A case of which not all is known has no memo.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ethos_hil.base.files import write_whole
from ethos_hil.base.regular_file import read_text
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.contents import touch
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.cache.versions import versions
from ethos_hil.lowering.made_from.code_watch import Reads
from ethos_hil.lowering.made_from.model_fingerprint import Fingerprint, changed_in_session
from ethos_hil.lowering.made_from.project_files import installed

_MOST_MEMO = 10 << 20
"""Largest size of a memo, bytes."""


@dataclass(frozen=True)
class Found:
    """An artifact, and what its model was made from.

    Attributes:
        artifact: the artifact.
        made_from: what its model was made from.
        told: what else is to be known of the model, as JSON.
    """

    artifact: Artifact
    made_from: Fingerprint
    told: Mapping[str, Any] = field(default_factory=dict)


def find(cache: Cache, name: str, target: Sequence[str], today: Reads) -> Found | None:
    """Return the artifact of the case called `name` for `target`, or None if what it was made from has changed.

    It also returns None if the cache has removed the artifact since.

    Args:
        cache: the cache.
        name: the case's name, and its file's.
        target: the properties of its target that decide the artifact.
        today: what importing the case's files asked for in this session.
    """
    path = _path(cache, name, target)
    try:
        entry = json.loads(read_text(path, most=_MOST_MEMO))
        made_from = Fingerprint(dict(entry["files"]), dict(entry["variables"]))
        artifact = cache.get(entry["key"]) if made_from.outdated(today) is None else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if artifact is None:
        return None
    touch(path)  # the cache removes the least recently used ones
    return Found(artifact, made_from, entry.get("told", {}))


def keep(cache: Cache, name: str, target: Sequence[str], found: Found) -> None:
    """Remember the artifact of the case, unless what it was made from is not known or changes during the test."""
    made_from = found.made_from
    if made_from.unknown or changed_in_session(made_from.files) is not None:
        return
    path = _path(cache, name, target)
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {
        "key": found.artifact.key,
        "files": dict(made_from.files),
        "variables": dict(made_from.variables),
        "told": dict(found.told),
    }
    write_whole(path, json.dumps(entry))


def _path(cache: Cache, name: str, target: Sequence[str]) -> Path:
    identity = json.dumps([name, list(target), versions(), packages()])
    return cache.root / "cases" / hashlib.sha256(identity.encode()).hexdigest()


@functools.cache
def packages() -> str:
    """Return a digest of the installed packages, their versions, and when each was installed."""
    found = []
    for folder in installed():
        for path in folder.glob("*.dist-info"):
            try:
                found.append(f"{path.name} {(path / 'RECORD').stat().st_mtime_ns}")
            except OSError:
                found.append(path.name)
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()
