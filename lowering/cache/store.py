"""A cache of artifacts by content, shared by all processes of a user.

An entry is a folder named after the digest of everything that decides its content. It is written elsewhere on the same
file system, synced, and renamed into place under a lock on its key, so it is either whole or missing. Loading checks
every file against the entry's digest list, so a damaged entry is never used but made again. When all entries together
exceed a limit, the least recently used ones are deleted (`ethos_hil.lowering.cache.contents`).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.file_lock import lock
from ethos_hil.base.files import read_text, write_whole
from ethos_hil.base.verdict import FailureKind
from ethos_hil.lowering.artifact import SCHEMA_VERSION, Artifact, sync_folder
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE, CacheContents, cache_folder, cache_limit, discard, touch

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MOST_KEY = 1000
"""Bytes of a file that holds a key."""


class Cache:
    """A folder of artifacts.

    Args:
        root: the folder; by default `cache_folder()`.
        limit: largest size of its entries, bytes; by default `cache_limit()`.

    Attributes:
        folder: the folder of everything that the cache reads and writes.
        root: the part of `folder` for this version of the format.

    Raises:
        UsageError: $ETHOS_HIL_CACHE_LIMIT is not a size.
    """

    def __init__(self, root: Path | None = None, limit: int | None = None) -> None:
        self.folder = cache_folder() if root is None else root.absolute()
        self.root = self.folder / f"v{SCHEMA_VERSION}"
        self._contents = CacheContents(self.folder)
        self._limit = cache_limit() if limit is None else limit

    def get(self, key: str) -> Artifact | None:
        """Return the artifact under `key`, or None when there is none or it is damaged."""
        try:
            artifact = Artifact.load(self._entry(key))
        except UsageError:
            return None
        if artifact.key != key:
            return None
        touch(self._entry(key))
        return artifact

    def get_or_make(self, key: str, make: Callable[[], Artifact]) -> tuple[Artifact, bool]:
        """Return the artifact under `key`, and whether it was cached; if it was not, `make` is called.

        If several processes ask for the same key at once, one makes the artifact and the others wait for it. Raises
        ToolError when the folder cannot be written (permissions, no space), or another process makes the artifact for
        longer than 15 minutes; no partial entry remains.
        """
        cached = self.get(key)
        if cached is not None:
            return cached, True
        with self._lock(key):
            cached = self.get(key)
            if cached is not None:
                return cached, True
            artifact = make()
            if artifact.key != key:
                raise ValueError(f"the artifact's key is {artifact.key!r}, expected {key!r}")
            with self._writing():
                self._publish(artifact)
        with self._writing():
            self._contents.add(self._entry(key), self._limit)
        return artifact, False

    def find_by_pte(self, sha256: str) -> Artifact | None:
        """Return the artifact whose .pte has this digest, or None."""
        try:
            key = read_text(self.root / "by-pte" / sha256, "ascii", most=_MOST_KEY).strip()
        except (OSError, UnicodeDecodeError):
            return None
        artifact = self.get(key) if re.fullmatch(r"[0-9a-f]{64}", key) else None
        return artifact if artifact is not None and artifact.sha256 == sha256 else None

    def _entry(self, key: str) -> Path:
        return self.root / "artifacts" / key

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            full = error.errno in _NO_SPACE
            raise ToolError(
                f"the cache in {self.root} cannot be written: {error.strerror or error}",
                hint=f"{'free some space, or ' if full else ''}set {CACHE_VARIABLE} to a folder that you can write",
                kind=FailureKind.CACHE,
            ) from error

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        with ExitStack() as stack:
            with self._writing():
                stack.enter_context(lock(self.root / "locks" / f"{key}.lock"))
            yield

    def _publish(self, artifact: Artifact) -> None:
        entry = self._entry(artifact.key)
        entry.parent.mkdir(parents=True, exist_ok=True)
        # We hold the key's lock, so a folder of this name was left by a process that died.
        prefix = f".{artifact.key}."
        for left in entry.parent.glob(f"{prefix}*"):
            discard(left)
        fresh = entry.with_name(f"{prefix}{os.getpid()}")
        try:
            fresh.mkdir()  # with the permissions that the user gives folders
            artifact.save(fresh)
            if entry.exists() or entry.is_symlink():  # it is damaged, or get() would have returned it
                entry.rename(fresh.with_name(fresh.name + ".old"))
            fresh.rename(entry)
        finally:
            for left in entry.parent.glob(f"{prefix}*"):
                discard(left)
        sync_folder(entry.parent)
        self._index(artifact)

    def _index(self, artifact: Artifact) -> None:
        folder = self.root / "by-pte"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / artifact.sha256, artifact.key + "\n")
