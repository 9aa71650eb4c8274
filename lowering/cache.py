"""Artifacts kept by content, shared by all processes of a user.

An entry is a folder named after the digest of everything that went into it. It is written elsewhere on the same file
system, synced, and renamed into place while a lock on its key is held: it is either whole or not there. Loading
checks every file against the entry's digest list, so a damaged entry is never used but made again.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ethos_hil.lowering.artifact import SCHEMA_VERSION, Artifact
from ethos_hil.lowering.errors import ToolError, UsageError
from ethos_hil.results.verdict import FailureKind

_VARIABLE = "ETHOS_HIL_CACHE"


class Cache:
    """A folder of artifacts.

    Args:
        root: the folder; by default $ETHOS_HIL_CACHE, else the user's cache folder.
    """

    def __init__(self, root: Path | None = None) -> None:
        if root is None:
            given = os.environ.get(_VARIABLE)
            if given:
                root = Path(given).expanduser()
            else:
                import platformdirs

                root = Path(platformdirs.user_cache_dir("ethos-hil"))
        self.root = root.absolute() / f"v{SCHEMA_VERSION}"

    def get(self, key: str) -> Artifact | None:
        """The artifact under `key`, or None when there is none or it is damaged."""
        try:
            artifact = Artifact.load(self._entry(key))
        except UsageError:
            return None
        return artifact if artifact.key == key else None

    def get_or_make(self, key: str, make: Callable[[], Artifact]) -> tuple[Artifact, bool]:
        """The artifact under `key`, and whether it was there already; `make` is called when not.

        Of several processes that ask for the same key at once one makes it and the others wait for it. A ToolError
        says when the folder cannot be written (permissions, no space); nothing half-written remains.
        """
        found = self.get(key)
        if found is not None:
            return found, True
        with self._locked(key):
            found = self.get(key)
            if found is not None:
                return found, True
            artifact = make()
            if artifact.key != key:
                raise ValueError(f"the artifact's key is {artifact.key!r}, expected {key!r}")
            with self._writing():
                self._publish(artifact)
            return artifact, False

    def find_by_pte(self, sha256: str) -> Artifact | None:
        """The artifact whose .pte has this digest, or None."""
        try:
            key = (self.root / "by-pte" / sha256).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        found = self.get(key) if re.fullmatch(r"[0-9a-f]{64}", key) else None
        return found if found is not None and found.sha256 == sha256 else None

    def _entry(self, key: str) -> Path:
        return self.root / "artifacts" / key

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ToolError(
                f"the cache in {self.root} cannot be written: {error.strerror or error}",
                hint=f"free some space, or set {_VARIABLE} to another folder",
                kind=FailureKind.CACHE,
            ) from error

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        from filelock import FileLock

        lock = FileLock(self.root / "locks" / f"{key}.lock")
        with self._writing():
            Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _publish(self, artifact: Artifact) -> None:
        entry = self._entry(artifact.key)
        entry.parent.mkdir(parents=True, exist_ok=True)
        # We hold the key's lock, so whatever lies here under its name was left by a process that died.
        prefix = f".{artifact.key}."
        for left in entry.parent.glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix=prefix, dir=entry.parent))
        try:
            artifact.save(fresh)
            fresh.chmod(0o755)
            if entry.exists():  # damaged, or get() would have found it
                entry.rename(fresh.with_name(fresh.name + ".old"))
            fresh.rename(entry)
        finally:
            for left in entry.parent.glob(f"{prefix}*"):
                shutil.rmtree(left, ignore_errors=True)
        _sync_folder(entry.parent)
        self._index(artifact)

    def _index(self, artifact: Artifact) -> None:
        folder = self.root / "by-pte"
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "w") as stream:
                stream.write(artifact.key + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).replace(folder / artifact.sha256)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
