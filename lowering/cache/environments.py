"""Environments with one version of a package each, which are kept.

An environment is a folder that pip fills and that is nothing but a part of Python's path. So it works under any name:
it is made under another one, and renamed when it is whole. Its manifest has a digest of the names and sizes of its
files; one that does not fit is made again. Python itself and its standard library are those of this process.

    <root>/<package>-<version>-<Python>-<machine>/environment.json    what is in it
    <root>/<package>-<version>-<Python>-<machine>/site                in the path of the version's process
    <root>/locks

A name that ends in "-alone" is that of one package without what it requires: it is laid over another environment. That
of a wheel has the first digits of its digest, too: nightly builds of one version differ.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError
from ethos_hil.base.file_lock import lock
from ethos_hil.base.files import digest_of_file, read_text, write_whole
from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.base.process import run_module
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE, cache_folder, discard

SCHEMA_VERSION = 1
_MANIFEST, _SITE = "environment.json", "site"
_MOST_MANIFEST = 1 << 20
_AVAILABLE = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_LISTED = re.compile(r"\s*\(from versions: .*?\)")
_NETWORK = (
    "check the network, and `pip config list`; versions that are named in full, and were installed before, need no "
    "index"
)
_MOST_REASON = 400
_ASK_SECONDS = 120


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
        return tuple(dict.fromkeys(part for part in parts if part))


class KeptEnvironments:
    """A folder of environments."""

    def __init__(self, root: Path | None = None) -> None:
        """Use a folder, which is made when something is kept; by default one in the user's cache."""
        if root is None:
            root = cache_folder() / "environments"
        self.root = root.absolute()

    def find(self, package: str, version: str, *, alone: bool = False) -> VersionEnvironment | None:
        """Return an environment, or None if there is none or it is not whole."""
        return self._find(package, version, self._folder(package, version, alone, None))

    @staticmethod
    def _find(package: str, version: str, folder: Path) -> VersionEnvironment | None:
        try:
            document = json.loads(read_text(folder / _MANIFEST, most=_MOST_MANIFEST))
            packages = {str(name): str(release) for name, release in document["packages"].items()}
            same = (document["schema_version"], document["package"], document["version"]) == (
                SCHEMA_VERSION, package, version
            )  # fmt: skip
            whole = same and document["files"] == _files(folder / _SITE)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return VersionEnvironment(package, version, folder, packages) if whole else None

    def get(
        self,
        package: str,
        version: str,
        tell: Callable[[str], None],
        *,
        alone: bool = False,
        wheel: Path | None = None,
    ) -> VersionEnvironment:
        """Return an environment; it is installed if there is none.

        Args:
            package, version: what it is for.
            tell: is told what is installed.
            alone: without what the package requires.
            wheel: the file to install; None for what the index has.

        Raises:
            PipFailed: this version cannot be installed.
            ToolError: pip is missing, the folder cannot be written, or another process holds it for too long.
        """
        with self._writing():
            folder = self._folder(package, version, alone, wheel)
            requirement = f"{package}=={version}" if wheel is None else str(wheel)
            fill = partial(pip_install, requirement, alone=alone)
            return self._keep(package, version, folder, fill, tell, f"Installing {package} {version} into {self.root}")

    def keep(
        self,
        what: str,
        version: str,
        fill: Callable[[Path, Path], object],
        tell: Callable[[str], None],
        stage: str,
    ) -> VersionEnvironment:
        """Return an environment that something else than pip fills; it is filled if there is none.

        Args:
            what, version: what it is for, and its name.
            fill: fills a folder; the second one is for what it needs meanwhile.
            tell: is told `stage` where it is filled.
            stage: what is done then.

        Raises:
            ToolError: the folder cannot be written, or another process holds it for too long; or what `fill` raises.
        """
        with self._writing():
            return self._keep(what, version, self._folder(what, version, False, None), fill, tell, stage)

    def _keep(
        self,
        package: str,
        version: str,
        folder: Path,
        fill: Callable[[Path, Path], object],
        tell: Callable[[str], None],
        stage: str,
    ) -> VersionEnvironment:
        with lock(self.root / "locks" / f"{folder.name}.lock"):
            installation = self._find(package, version, folder)
            if installation is None:
                tell(stage)
                self._make(package, version, folder, fill)
                installation = self._find(package, version, folder)
        if installation is None:
            raise ToolError(f"{folder} was changed while it was made", hint="is another program at work there?")
        return installation

    def _make(self, package: str, version: str, folder: Path, fill: Callable[[Path, Path], object]) -> None:
        # The lock is held: what has such a name was left by a process that died.
        prefix = f".{folder.name}."
        for left in self.root.glob(f"{prefix}*"):
            discard(left)
        fresh = self.root / f"{prefix}{os.getpid()}"
        try:
            site, temporary = fresh / _SITE, fresh / "temporary"
            temporary.mkdir(parents=True)
            fill(site, temporary)
            discard(temporary)
            manifest = {
                "package": package, "version": version, "packages": installed_packages(site), "files": _files(site),
                "created": environment.now(), "schema_version": SCHEMA_VERSION,
            }  # fmt: skip
            write_whole(fresh / _MANIFEST, json.dumps(manifest, indent=2) + "\n")
            if folder.exists() or folder.is_symlink():  # it is not whole, or it would have been found
                folder.rename(fresh.with_name(f"{fresh.name}.old"))
            fresh.rename(folder)
        finally:
            for left in self.root.glob(f"{prefix}*"):
                discard(left)

    def _folder(self, package: str, version: str, alone: bool, wheel: Path | None) -> Path:
        digest = "" if wheel is None else f"-{digest_of_file(wheel)[:8]}"
        name = f"{package}-{version}{digest}-{sys.implementation.cache_tag}-{platform.machine()}"
        return self.root / (f"{name}-alone" if alone else name)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ToolError(
                f"environments in {self.root} cannot be kept: {error.strerror or one_line(str(error))}",
                hint=f"name a folder that you can write with {CACHE_VARIABLE}, with 100 MB for each version",
            ) from error


def _files(site: Path) -> str:
    """Return a digest of the names and sizes of the files in a folder. Compiled modules don't count."""
    site.stat()
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(site):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(folder, name)
            digest.update(f"{path.relative_to(site)}\0{path.lstat().st_size}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


class PipFailed(Exception):
    """pip could not do what it was asked; the message is its own reason."""


def releases(package: str) -> tuple[str, ...]:
    """Return the releases of a package that are not pre-releases, as the user's index lists them.

    Raises:
        ToolError: pip is missing, or cannot reach the index.
    """
    try:
        text = _call_pip(["index", "versions", package, "--timeout", "15", "--retries", "1"], seconds=_ASK_SECONDS)
    except PipFailed as error:
        raise ToolError(f"pip cannot list the releases of {package}: {error}", hint=_NETWORK) from error
    match = _AVAILABLE.search(text)
    if match is None:
        raise ToolError(f"pip lists no releases of {package}", hint=_NETWORK)
    return tuple(release.strip() for release in match[1].split(","))


def pip_install(requirement: str, folder: Path, temporary: Path, *, alone: bool) -> None:
    """Install a wheel, and unless `alone` those that it requires, into a folder that is nothing but Python's path.

    Args:
        requirement: as pip takes it; nothing is built from source.
        folder: where it goes.
        temporary: a folder for what pip unpacks meanwhile. If pip is ended, what is in it stays.

    Raises:
        PipFailed: it could not be done.
        ToolError: pip is missing.
    """
    _call_pip(
        [
            "install",
            "--quiet",
            "--target",
            str(folder),
            "--only-binary=:all:",
            *(["--no-deps"] if alone else []),
            requirement,
        ],
        variables={"TMPDIR": str(temporary)},
    )


def _call_pip(
    arguments: Sequence[str], *, variables: Mapping[str, str] | None = None, seconds: float | None = None
) -> str:
    if importlib.util.find_spec("pip") is None:
        raise ToolError(f"pip is not installed beside {sys.executable}", hint="python -m ensurepip installs it")
    command = ["pip", *arguments, "--no-input", "--disable-pip-version-check"]
    try:
        status, output = run_module(command, variables or {}, seconds)
    except subprocess.TimeoutExpired:
        raise PipFailed(f"no answer within {seconds:g} s") from None
    if status:
        raise PipFailed(_reason(output, status))
    return output


def _reason(output: str, status: int) -> str:
    """Return pip's first line that is an error, without the list of all versions there are."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.partition("ERROR:")[2].strip() for line in lines if line.startswith("ERROR:")]
    reason = next(iter(errors), lines[-1] if lines else f"it ended with status {status}")
    return cut(one_line(_LISTED.sub("", reason)), _MOST_REASON)


def installed_packages(site: Path) -> dict[str, str]:
    """Return the versions of the packages in a folder, by name."""
    return {package.metadata["Name"]: package.version for package in importlib.metadata.distributions(path=[str(site)])}
