"""The entries of a cache, and the removal of old ones to stay below its limit.

    <folder>/size                          bytes of all entries, as last counted
    <folder>/size.lock                     held while that is read and written, and while entries are removed
    <folder>/torchinductor/                torch's own files (settings.py); usually empty, and not counted
    <folder>/v<n>/artifacts/<key>/         an entry; its time of modification is when it was last used
    <folder>/v<n>/artifacts/.<key>.<...>   one that is being written or removed, or was when its process died
    <folder>/v<n>/by-pte/<sha256>          the key of the entry that has this program
    <folder>/v<n>/cases/<digest>           what the suites know of an entry; its time is when it was last used
    <folder>/v<n>/locks/<key>.lock         held while the entry is made, and while it is removed

Entries of all versions of the format count; those of an old version are unused, so they are removed first.

Every process that adds an entry adds its bytes to `size`. Only if the sum exceeds the limit are the entries examined
one by one. Then the least recently used are removed, down to nine tenths of the limit, so that this is rare. An entry
is renamed before it is removed: a process that reads it meanwhile either finds all its files or misses one. So it has
either the whole entry (every file is checked against the entry's digests) or none.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from ethos_hil.base import byte_size
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError
from ethos_hil.base.file_lock import lock
from ethos_hil.base.files import DIGESTS, read_text, write_whole
from ethos_hil.base.process import SELDOM
from ethos_hil.base.verdict import FailureKind

_BLOCK = 4096
"""Smallest block that file systems allocate, bytes."""
_KEEP = 0.9
_MOST_NOTE = 100
"""Largest size of a file with a key or a number, bytes."""
_MOST_DIGESTS = 1 << 20
"""Largest size of a digest list, bytes."""
_KEY = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"v\d+")


@dataclass(frozen=True)
class CacheEntry:
    """An entry: its path, its bytes on disk, and the time it was last used, in ns since the epoch."""

    path: Path
    size: int
    used: int

    @classmethod
    def read(cls, path: Path) -> CacheEntry:
        """Return the entry at `path`. What cannot be examined does not count: another process may remove it meanwhile,
        it may be another user's, and no folder may be there.
        """
        size = 0
        with contextlib.suppress(OSError), os.scandir(path) as files:
            for file in files:
                with contextlib.suppress(OSError):
                    size += -(-file.stat().st_size // _BLOCK) * _BLOCK
        size = max(size, _BLOCK)  # whatever is there takes space, also where its files cannot be seen
        try:
            return cls(path, size, path.stat().st_mtime_ns)
        except OSError:
            return cls(path, size if path.is_symlink() else 0, 0)


@dataclass(frozen=True)
class Removed:
    """The number of removed entries, and their bytes."""

    entries: int = 0
    size: int = 0


def touch(path: Path) -> None:
    """Note that an entry, or a memo about one, is used now. Only its time changes."""
    with contextlib.suppress(OSError):  # it was removed meanwhile, or the cache is read-only
        os.utime(path)


def discard(path: Path) -> None:
    """Remove whatever is at a path, as far as that is possible; a link, not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


class CacheContents:
    """All entries below a cache's folder.

    Args:
        folder: the folder of the cache ($ETHOS_HIL_CACHE).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._size = folder / "size"

    def entries(self) -> list[CacheEntry]:
        """Return every whole entry, the least recently used first.

        Raises:
            ToolError: the folder cannot be read.
        """
        with self._may_be("read"):
            return self._entries()

    @contextlib.contextmanager
    def _may_be(self, done: str) -> Iterator[None]:
        """Make an error of the file system inside a ToolError, which says that the folder cannot be read or written."""
        try:
            yield
        except OSError as error:
            raise ToolError(
                f"the cache in {self.folder} cannot be {done}: {error.strerror or error}",
                hint="are its permissions right?",
                kind=FailureKind.CACHE,
            ) from error

    def _entries(self) -> list[CacheEntry]:
        entries = [CacheEntry.read(path) for path in self._artifacts() if _KEY.fullmatch(path.name)]
        return sorted(entries, key=lambda entry: entry.used)

    def add(self, path: Path, limit: int) -> Removed:
        """Count a new entry, and remove others if the limit is exceeded; never this one.

        Raises:
            OSError: the folder cannot be written.
        """
        with lock(self.folder / "size.lock"):
            known = self._noted_size()
            if known is not None:
                known += CacheEntry.read(path).size
            if known is not None and known <= limit:
                write_whole(self._size, f"{known}\n")
                return Removed()
            entries = self._entries()
            if sum(entry.size for entry in entries) <= limit:
                write_whole(self._size, f"{sum(entry.size for entry in entries)}\n")
                return Removed()
            return self._shrink(entries, int(limit * _KEEP), path)

    def trim(self, limit: int) -> Removed:
        """Remove the least recently used entries, until the others take no more than `limit` bytes.

        An entry that another process is making at this moment stays.

        Raises:
            ToolError: the folder cannot be written.
        """
        if not self.folder.is_dir():
            return Removed()
        with self._may_be("written"), lock(self.folder / "size.lock"):
            self._sweep()
            return self._shrink(self._entries(), limit, None)

    def clear(self) -> Removed:
        """Remove all entries and the memos about them.

        Raises:
            ToolError: as `trim`.
        """
        removed = self.trim(0)
        for version in self._versions():
            discard(version / "cases")
            discard(version / "by-pte")
            for path in _list(version / "locks"):
                with lock(path, wait=False) as mine:
                    if mine:
                        path.unlink(missing_ok=True)
        return removed

    def _shrink(self, entries: list[CacheEntry], limit: int, spared: Path | None) -> Removed:
        total = sum(entry.size for entry in entries)
        kept: list[CacheEntry] = []
        count = size = 0
        for entry in entries:
            if total - size > limit and entry.path != spared and self._remove(entry.path):
                count, size = count + 1, size + entry.size
            else:
                kept.append(entry)
        write_whole(self._size, f"{total - size}\n")
        if count and kept:
            self._forget_cases(kept[0].used)
        return Removed(count, size)

    def _remove(self, path: Path) -> bool:
        """Remove an entry, unless another process holds its lock. Return whether it was removed."""
        file = path.parents[1] / "locks" / f"{path.name}.lock"
        with lock(file, wait=False) as mine:
            if not mine:
                return False
            pte = _program(path)
            aside = path.with_name(f".{path.name}.removed")
            discard(aside)
            try:
                path.rename(aside)
            except FileNotFoundError:
                return False
            if pte is not None:
                pointer = path.parents[1] / "by-pte" / pte
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    if read_text(pointer, "ascii", most=_MOST_NOTE).strip() == path.name:
                        pointer.unlink()
            discard(aside)
            file.unlink(missing_ok=True)  # a process that waits for it tries again: filelock sees that its file is gone
            return True

    def _sweep(self) -> None:
        """Remove incomplete files of processes that died."""
        for path in self._artifacts():
            _, _, rest = path.name.partition(".")
            key = rest.partition(".")[0]
            if not path.name.startswith(".") or not _KEY.fullmatch(key):
                continue
            with lock(path.parents[1] / "locks" / f"{key}.lock", wait=False) as mine:
                if mine:
                    discard(path)

    def _forget_cases(self, oldest: int) -> None:
        """Remove the suites' memos about removed entries: they were last used before all that remain."""
        for version in self._versions():
            for path in _list(version / "cases"):
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime_ns < oldest:
                        path.unlink()

    def _noted_size(self) -> int | None:
        try:
            return int(read_text(self._size, "ascii", most=_MOST_NOTE))
        except (OSError, ValueError):
            return None

    def _versions(self) -> list[Path]:
        return [path for path in _list(self.folder) if _VERSION.fullmatch(path.name)]

    def _artifacts(self) -> list[Path]:
        return [path for version in self._versions() for path in _list(version / "artifacts")]


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _program(path: Path) -> str | None:
    """Return the digest of an entry's program, from its list of digests."""
    try:
        lines = read_text(path / DIGESTS, "ascii", most=_MOST_DIGESTS).splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    return digests.get("model.pte")


# The folder and the limit of the cache.

CACHE_VARIABLE = "ETHOS_HIL_CACHE"
LIMIT_VARIABLE = "ETHOS_HIL_CACHE_LIMIT"
DEFAULT_LIMIT = 10 * 10**9
"""Limit without $ETHOS_HIL_CACHE_LIMIT, bytes."""


def cache_folder() -> Path:
    """Return $ETHOS_HIL_CACHE, else the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("ethos-hil")).absolute()


def cache_limit() -> int:
    """Return the largest size of the entries, bytes: $ETHOS_HIL_CACHE_LIMIT, else DEFAULT_LIMIT.

    Raises:
        UsageError: the variable is not a size.
    """
    given = os.environ.get(LIMIT_VARIABLE)
    return byte_size.parse(given, LIMIT_VARIABLE) if given else DEFAULT_LIMIT


def prepare_torch() -> None:
    """Prepare a process of ours that may import torch. Call it before that.

    The collector runs seldom. And what torch reads from the environment is set, unless the user did:

    Its threads wait asleep. GNU's OpenMP lets them spin, for milliseconds after each operator; where other processes
    want the processors, lowering a network then takes twice the CPU time.

    Its compiled code is kept in the cache. torch 2.13 makes that folder when torch.export is imported
    (torch/_inductor/runtime/cache_dir_utils.py), by default in TMPDIR, and leaves it there.
    """
    gc.set_threshold(*SELDOM)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    folder = cache_folder() / "torchinductor"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # such as a cache that cannot be written; torch could not be imported then
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder))
