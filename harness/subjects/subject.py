"""What lowers a model: this environment, another version of a package laid over it, or another Python.

`--with executorch==1.5.0` lays that version over this environment. What it requires beyond that, such as the version of
Vela of its extra, comes too; torch and NumPy stay, since everything else is built against them. `--with
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

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.environment import VELA, version
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.harness.subjects.environments import KeptEnvironments, PipFailed, releases

if TYPE_CHECKING:
    from packaging.requirements import Requirement

EXECUTORCH = "executorch"
PACKAGES = (EXECUTORCH, VELA, "tosa-tools", "torchao")
"""What can be laid over this environment."""
FLAG = "--with"
PYTHON = "python"
_FIXED = ("torch", "numpy")
"""What the environment decides: the others are built against it."""
_EXTRA = {EXECUTORCH: "ethos-u"}
_PINNED = re.compile(r"([A-Za-z0-9._-]+)\s*==\s*(\d[A-Za-z0-9.+!]*)")
_HINT = f"as in {FLAG} executorch==1.5.0, {FLAG} {VELA}==5.2.0, {FLAG} python=/path/to/venv/bin/python"


@dataclass(frozen=True)
class LoweringSubject:
    """What lowers a model in place of this environment.

    Attributes:
        packages: the versions that are laid over this environment, by name; empty with `python`.
        python: an interpreter with an environment of its own; "" for none.
    """

    packages: Mapping[str, str] = field(default_factory=dict, hash=False)
    python: str = ""

    @classmethod
    def parse(cls, given: tuple[str, ...]) -> LoweringSubject | None:
        """Read the values of `--with`; None if there are none.

        Raises:
            UsageError: one has another form, names another package, or contradicts another one.
        """
        packages: dict[str, str] = {}
        python = ""
        for text in given:
            kind, equals, path = text.partition("=")
            match = _PINNED.fullmatch(text.strip())
            if kind.strip() == PYTHON and equals and not path.startswith("="):
                if python:
                    raise UsageError(f"{FLAG} {text}: python is given twice", hint="leave out one of them")
                python = path.strip()
                continue
            if match is None:
                raise UsageError(f"{FLAG} {text} is neither PACKAGE==VERSION nor python=PATH", hint=_HINT)
            name = match[1].lower().replace("_", "-")
            if name not in PACKAGES:
                way = f"{FLAG} python=PATH takes a Python that has it" if name in _FIXED else _HINT
                suggestion = did_you_mean(name, PACKAGES)
                raise UsageError(
                    f"{FLAG} {text}: {name} cannot be laid over this environment", hint=f"{suggestion}{way}"
                )
            if packages.get(name, match[2]) != match[2]:
                raise UsageError(f"{FLAG} {text}: {name} is given twice", hint="leave out one of them")
            packages[name] = match[2]
        if python and packages:
            raise UsageError(
                f"{FLAG} python={python} and {FLAG} {next(iter(packages))} contradict one another",
                hint="install the version into that Python's environment",
            )
        return cls(packages, python) if given else None

    @property
    def name(self) -> str:
        """Its name, for people: "executorch 1.5.0, ethos-u-vela 5.2.0", or the interpreter's path."""
        return self.python or ", ".join(f"{name} {number}" for name, number in self.packages.items())

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
            UsageError: there is no such version, or it needs another torch or NumPy than there is.
            ToolError: it cannot be installed.
        """
        wanted, sites = dict(self.packages), list[str]()
        waiting = list(wanted.items())
        while waiting:
            name, number = waiting.pop(0)
            try:
                installed = environments.get(name, number, tell, alone=True)
            except PipFailed as error:
                raise UsageError(f"{FLAG} {name}=={number}: pip cannot install it: {error}", hint=_HINT) from error
            sites.append(str(installed.site))
            for requirement in _requirements(name, installed.site):
                other = requirement.name.lower().replace("_", "-")
                if requirement.specifier.contains(wanted.get(other) or version(other) or "", prereleases=True):
                    continue
                if other in self.packages:
                    continue  # the user has chosen it
                if other in _FIXED:
                    raise UsageError(
                        f"{FLAG} {name}=={number} requires {requirement}; {other} {version(other)} is installed",
                        hint=f"make an environment with it, and give {FLAG} python=/path/to/venv/bin/python",
                    )
                wanted[other] = _newest(requirement)
                waiting.append((other, wanted[other]))
        return (*sites, *sys.path)


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
