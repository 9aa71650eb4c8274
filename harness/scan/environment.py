"""Environments with one version of a package each, which are kept.

An environment is a folder that pip fills and that is nothing but a part of Python's path. So it works under any name:
it is made under another one, and renamed when it is whole. Its manifest has a digest of the names and sizes of its
files; one that does not fit is made anew. Python itself and its standard library are those of this process.

    <root>/<package>-<version>-<Python>-<machine>/environment.json    what is in it
    <root>/<package>-<version>-<Python>-<machine>/site                in the path of the version's process
    <root>/locks
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ethos_hil.base import environment
from ethos_hil.base.errors import ToolError
from ethos_hil.base.file_lock import locked
from ethos_hil.base.files import write_whole
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.regular_file import read_text
from ethos_hil.harness.scan import overlay, pip
from ethos_hil.harness.scan.releases import EXECUTORCH
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.lowering.cache.contents import discard

SCHEMA_VERSION = 1
_MANIFEST, _SITE = "environment.json", "site"
_MOST_MANIFEST = 1 << 20


@dataclass(frozen=True)
class VersionEnvironment:
    """An environment that is whole.

    Attributes:
        package, version: what it is for.
        folder: where it is.
        packages: the versions of all that is in it, by name.
    """

    package: str
    version: str
    folder: Path
    packages: Mapping[str, str]

    @property
    def site(self) -> Path:
        """The folder for Python's path."""
        return self.folder / _SITE

    @property
    def alone(self) -> tuple[str, ...]:
        """Python's path with nothing but the standard library and this environment."""
        machines = sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix})
        parts = (sysconfig.get_path("stdlib"), machines, sysconfig.get_config_var("DESTSHARED"), str(self.site))
        return tuple(dict.fromkeys(each for each in parts if each))


@dataclass(frozen=True)
class _Manifest:
    package: str
    version: str
    packages: Mapping[str, str]
    files: str
    created: str
    schema_version: int = SCHEMA_VERSION


class KeptEnvironments:
    """A folder of environments."""

    def __init__(self, root: Path | None = None) -> None:
        """Use a folder, which is made when something is kept; by default one in the user's cache."""
        if root is None:
            from ethos_hil.lowering.cache.settings import cache_folder

            root = cache_folder() / "scan"
        self.root = root.absolute()

    def find(self, package: str, version: str) -> VersionEnvironment | None:
        """Return an environment, or None if there is none or it is not whole."""
        folder = self._folder(package, version)
        try:
            document = json.loads(read_text(folder / _MANIFEST, most=_MOST_MANIFEST))
            packages = {str(name): str(each) for name, each in document["packages"].items()}
            same = (document["schema_version"], document["package"], document["version"]) == (
                SCHEMA_VERSION, package, version
            )  # fmt: skip
            whole = same and document["files"] == _files(folder / _SITE)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return VersionEnvironment(package, version, folder, packages) if whole else None

    def get(self, package: str, version: str, reporter: Reporter) -> VersionEnvironment:
        """Return an environment; it is installed if there is none.

        Raises:
            PipFailed: this version cannot be installed.
            ToolError: pip is missing, the folder cannot be written, or another process holds it for too long.
        """
        folder = self._folder(package, version)
        with self._writing(), locked(self.root / "locks" / f"{folder.name}.lock"):
            found = self.find(package, version)
            if found is None:
                reporter.stage(f"Installing {package} {version}")
                self._make(package, version, folder)
                found = self.find(package, version)
        if found is None:
            raise ToolError(f"{folder} was changed while it was made", hint="is another program at work there?")
        return found

    def _make(self, package: str, version: str, folder: Path) -> None:
        # The lock is held: what has such a name was left by a process that died.
        prefix = f".{folder.name}."
        for left in self.root.glob(f"{prefix}*"):
            discard(left)
        fresh = self.root / f"{prefix}{os.getpid()}"
        try:
            site, temporary = fresh / _SITE, fresh / "temporary"
            temporary.mkdir(parents=True)
            _install(package, version, site, temporary)
            discard(temporary)
            manifest = _Manifest(package, version, overlay.packages(site), _files(site), environment.now())
            write_whole(fresh / _MANIFEST, json.dumps(asdict(manifest), indent=2) + "\n")
            if folder.exists() or folder.is_symlink():  # it is not whole, or it would have been found
                folder.rename(fresh.with_name(f"{fresh.name}.old"))
            fresh.rename(folder)
        finally:
            for left in self.root.glob(f"{prefix}*"):
                discard(left)

    def _folder(self, package: str, version: str) -> Path:
        return self.root / f"{package}-{version}-{sys.implementation.cache_tag}-{platform.machine()}"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ToolError(
                f"environments in {self.root} cannot be kept: {error.strerror or one_line(str(error))}",
                hint="name a folder that you can write with --environments, with 100 MB for each version",
            ) from error


def _install(package: str, version: str, site: Path, temporary: Path) -> None:
    wanted = f"{package}=={version}"
    if package != EXECUTORCH:
        pip.install([wanted], site, temporary=temporary, dependencies=True)
        return
    pip.install([wanted], site, temporary=temporary, dependencies=False)
    missing = overlay.unmet(site, package)
    if missing:
        pip.install(missing, site, temporary=temporary, dependencies=False)


def _files(site: Path) -> str:
    """Return a digest of the names and sizes of the files in a folder. Python adds compiled modules; they don't count.

    Raises:
        OSError: there is no such folder.
    """
    site.stat()
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(site):
        folders[:] = sorted(each for each in folders if each != "__pycache__")
        for name in sorted(names):
            path = Path(folder, name)
            digest.update(f"{path.relative_to(site)}\0{path.lstat().st_size}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
