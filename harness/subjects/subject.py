"""What lowers a model: this environment, another version of a package laid over it, or another Python.

`--with executorch==1.5.0` lays that version over this environment. What it requires beyond that, such as the version of
Vela of its extra, comes too; torch and NumPy stay, since everything else is built against them. `--with path=FILE` does
so with a wheel, such as one of last night, and `--with path=FOLDER` with what pip installed into a folder. `--with
python=/path/to/venv/bin/python` takes that Python with all that is installed there, such as an ExecuTorch built from
source.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.environment import VELA, version
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.lowering.cache.environments import KeptEnvironments, PipFailed, releases

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.version import Version

EXECUTORCH = "executorch"
PACKAGES = {EXECUTORCH: "executorch", VELA: "ethosu", "tosa-tools": "tosa_reference_model", "torchao": "torchao"}
"""What can be laid over this environment, each with a module that it has."""
FLAG = "--with"
PYTHON, PATH = "python", "path"
_FIXED = ("torch", "numpy")
"""What the environment decides: the others are built against it."""
_EXTRA = {EXECUTORCH: "ethos-u"}
_PINNED = re.compile(r"([A-Za-z0-9._-]+)\s*==\s*(\d[A-Za-z0-9.+!]*)")
_HINT = (
    f"as in {FLAG} executorch==1.5.0, {FLAG} {VELA}==5.2.0, {FLAG} path=nightly.whl, "
    f"{FLAG} python=/path/to/venv/bin/python"
)
_PATH_HINT = "give a wheel, or a folder that `pip install --no-deps --target FOLDER PACKAGE` filled"


@dataclass(frozen=True)
class LoweringSubject:
    """What lowers a model in place of this environment.

    Attributes:
        packages: the versions that are laid over this environment, by name; empty with `python`.
        paths: wheels, patterns of which the newest wheel is taken, and folders of installed packages, that are laid
            over it; empty with `python`.
        python: an interpreter with an environment of its own; "" for none.
    """

    packages: Mapping[str, str] = field(default_factory=dict, hash=False)
    python: str = ""
    paths: tuple[str, ...] = ()

    @classmethod
    def parse(cls, given: tuple[str, ...]) -> LoweringSubject | None:
        """Read the values of `--with`; None if there are none.

        Raises:
            UsageError: one has another form, names another package, or contradicts another one.
        """
        from packaging.utils import canonicalize_name  # late: `--help` does without

        packages: dict[str, str] = {}
        paths: dict[str, None] = {}
        python = ""
        for text in given:
            kind, equals, path = text.partition("=")
            match = _PINNED.fullmatch(text.strip())
            if kind.strip() == PYTHON and equals and not path.startswith("="):
                if python:
                    raise UsageError(f"{FLAG} {text}: python is given twice", hint="leave out one of them")
                python = path.strip()
                continue
            if kind.strip() == PATH and path.strip() and not path.startswith("="):
                paths[path.strip()] = None
                continue
            if match is None:
                raise UsageError(f"{FLAG} {text} is not PACKAGE==VERSION, path=PATH or python=PATH", hint=_HINT)
            name = canonicalize_name(match[1])
            if name not in PACKAGES:
                way = f"{FLAG} python=PATH takes a Python that has it" if name in _FIXED else _HINT
                suggestion = did_you_mean(name, PACKAGES)
                raise UsageError(
                    f"{FLAG} {text}: {name} cannot be laid over this environment", hint=f"{suggestion}{way}"
                )
            if packages.get(name, match[2]) != match[2]:
                raise UsageError(f"{FLAG} {text}: {name} is given twice", hint="leave out one of them")
            packages[name] = match[2]
        if python and (packages or paths):
            other = next(iter(packages), "") or f"{PATH}={next(iter(paths))}"
            raise UsageError(
                f"{FLAG} python={python} and {FLAG} {other} contradict one another",
                hint="install it into that Python's environment",
            )
        return cls(packages, python, tuple(paths)) if given else None

    @property
    def name(self) -> str:
        """Its name, for people: "executorch 1.5.0, ethos-u-vela 5.2.0", a wheel's or folder's path, or Python's."""
        return self.python or ", ".join((*(f"{name} {number}" for name, number in self.packages.items()), *self.paths))

    @property
    def uses(self) -> tuple[str, ...]:
        """The values of `--with` that name it."""
        return (
            *((f"{PYTHON}={self.python}",) if self.python else ()),
            *(f"{PATH}={path}" for path in self.paths),
            *(f"{name}=={number}" for name, number in self.packages.items()),
        )

    def moved(self, folder: Path) -> LoweringSubject:
        """Return it with paths that start from a folder."""
        python, *paths = (str(folder / Path(text).expanduser()) if text else "" for text in (self.python, *self.paths))
        return replace(self, python=python, paths=tuple(paths))

    def interpreter(self) -> Path | None:
        """Return the interpreter; None for this process's own.

        Raises:
            UsageError: there is no such program.
        """
        if not self.python:
            return None
        path = Path(self.python).expanduser().absolute()
        if not path.is_file():
            raise UsageError(f"{FLAG} python={self.python}: there is no such file", hint="give a venv's bin/python")
        return path

    def path(self, environments: KeptEnvironments, tell: Callable[[str], None]) -> tuple[str, ...]:
        """Return Python's path of an environment with the packages, which are installed where they are not kept.

        Raises:
            UsageError: there is no such version, file or package, or it needs another torch or NumPy than there is.
            ToolError: it cannot be installed.
        """
        from packaging.utils import canonicalize_name

        waiting = [package for text in self.paths for package in _laid(text)]
        waiting += [_Laid(name, number) for name, number in self.packages.items()]
        chosen = {package.name: package.number for package in waiting}
        wanted, sites = dict(chosen), list[str]()
        while waiting:
            package = waiting.pop(0)
            site = package.site or _installed(package, environments, tell)
            module = PACKAGES.get(package.name)
            if module is not None and not (site / module).is_dir():  # that of this environment would be taken
                raise UsageError(
                    f"{FLAG} {package.given}: {package.name} {package.number} has no module {module} there",
                    hint="is it built, and not installed editable?",
                )
            sites += [str(site)] if str(site) not in sites else []
            for requirement in _requirements(package.name, site):
                other = canonicalize_name(requirement.name)
                if requirement.specifier.contains(wanted.get(other) or version(other) or "", prereleases=True):
                    continue
                if other in chosen:
                    continue  # the user has chosen it
                if other in _FIXED:
                    raise UsageError(
                        f"{FLAG} {package.given} requires {requirement}; {other} {version(other)} is installed",
                        hint=f"make an environment with it, and give {FLAG} python=/path/to/venv/bin/python",
                    )
                wanted[other] = _newest(requirement)
                waiting.append(_Laid(other, wanted[other]))
        return (*sites, *sys.path)


@dataclass(frozen=True)
class _Laid:
    """A package that is laid over this environment: a wheel, installed in a folder, or by its version."""

    name: str
    number: str
    site: Path | None = None
    wheel: Path | None = None

    @property
    def given(self) -> str:
        """What the user gave."""
        path = self.wheel or self.site
        return f"{self.name}=={self.number}" if path is None else f"{PATH}={path}"


def _installed(package: _Laid, environments: KeptEnvironments, tell: Callable[[str], None]) -> Path:
    try:
        return environments.get(package.name, package.number, tell, alone=True, wheel=package.wheel).site
    except PipFailed as error:
        raise UsageError(f"{FLAG} {package.given}: pip cannot install it: {error}", hint=_HINT) from error


def _laid(text: str) -> list[_Laid]:
    """Return the packages of a wheel, or those of a folder that are laid over this environment."""
    path = Path(text).expanduser().absolute()
    if not path.is_dir():
        if not path.is_file():
            path = _newest_wheel(path, text)
        name, number = of_wheel(path)
        return [_Laid(name, number, wheel=path)]
    found = ((name, importlib.metadata.distributions(name=name, path=[str(path)])) for name in PACKAGES)
    laid = [_Laid(name, package.version, site=path) for name, packages in found for package in packages]
    if not laid:
        raise UsageError(
            f"{FLAG} {PATH}={text}: pip has installed none of {', '.join(PACKAGES)} there", hint=_PATH_HINT
        )
    return laid


def _newest_wheel(pattern: Path, text: str) -> Path:
    """Return the newest wheel that a pattern names: its path stays the same from night to night."""
    wheels = list(pattern.parent.glob(pattern.name)) if re.search(r"[*?\[]", pattern.name) else []
    if not wheels:
        raise UsageError(f"{FLAG} {PATH}={text}: there is no such file", hint=_PATH_HINT)
    return max(wheels, key=age_of)


def age_of(wheel: Path) -> tuple[Version, float]:
    """Return by what wheels are ordered: by version, and those of one version by time. Raises UsageError."""
    from packaging.version import Version  # late: `--help` does without

    return Version(of_wheel(wheel)[1]), wheel.stat().st_mtime


def of_wheel(path: Path) -> tuple[str, str]:
    """Return the package and the version of a wheel, by its name.

    Raises:
        UsageError: it is not a wheel, or of a package that cannot be laid over this environment.
    """
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename  # late: `--help` does without

    try:
        name, number, *_ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise UsageError(f"{path} is not a wheel: {error}", hint="give a .whl as it was built") from None
    if name not in PACKAGES:
        raise UsageError(f"{path}: {name} cannot be laid over this environment", hint=_HINT)
    return name, str(number)


def _requirements(name: str, site: Path) -> Iterator[Requirement]:
    """Yield what a package requires here, with its extra for the Ethos-U."""
    from packaging.requirements import Requirement  # late: `--help` does without

    (found, *_) = importlib.metadata.distributions(name=name, path=[str(site)])
    for text in found.requires or ():
        requirement = Requirement(text)
        extra = _EXTRA.get(name, "")
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _newest(requirement: Requirement) -> str:
    fitting = list(requirement.specifier.filter(releases(requirement.name)))
    if not fitting:
        raise ToolError(f"no release of {requirement.name} is {requirement.specifier}", hint="is the index complete?")
    from packaging.version import Version

    return max(fitting, key=Version)
