"""The locks that users install: the parts of requirements.lock that ethos-hil needs to run, and to put shards together.

    python -m ethos_hil.suites.lab run-locks

`make lock` calls it when it has written requirements.lock. What needs what is read from the installed packages. torch
and setuptools stay in locks of their own.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from ethos_hil.base.environment import VELA
from ethos_hil.base.files import write_whole
from ethos_hil.harness.doctor.examination import requirements

ROOT = Path(__file__).resolve().parents[2]
WHOLE, RUN, MERGE = "requirements.lock", "requirements-run.lock", "requirements-merge.lock"
LOWERS = ("torch", "executorch")
"""What only lowers models, with all that it brings. `ethos-hil nightly --merge` needs of it no more than the next."""
_HEADS = {
    RUN: """\
# What ethos-hil needs to run models, suites and nightlies: its packages with pytest and pytest-xdist, and without the
# tools of who develops it. The part of requirements.lock that `make lock` takes for that. torch has a lock of its own.
""",
    MERGE: """\
# What `ethos-hil nightly --merge`, `compare`, `report` and `history` need: neither torch nor executorch. The part of
# requirements.lock that `make lock` takes for that.
""",
}
_PIN = re.compile(r"^(?P<name>[^\s#]+)==.*\n(?: .*\n)*", re.MULTILINE)
"""A pin, with the lines of its hashes."""


def run_locks(root: Path = ROOT) -> dict[str, str]:
    """Return the contents of the locks that follow from requirements.lock and pyproject.toml, by their names."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    needed = list(map(Requirement, project["dependencies"]))
    wanted = {
        RUN: [*needed, *map(Requirement, project["optional-dependencies"]["suites"])],
        MERGE: [*(requirement for requirement in needed if requirement.name not in LOWERS), Requirement(VELA)],
    }
    pins = {canonicalize_name(match["name"]): match[0] for match in _PIN.finditer((root / WHOLE).read_text("utf-8"))}
    return {name: _HEADS[name] + "".join(_chosen(pins, needs)) for name, needs in wanted.items()}


def _chosen(pins: Mapping[NormalizedName, str], wanted: Iterable[Requirement]) -> list[str]:
    names = {
        canonicalize_name(requirement.name)
        for requirement in requirements([str(requirement) for requirement in wanted])
    }
    return [pin for name, pin in pins.items() if name in names]


def main() -> None:
    """Write the locks."""
    for name, text in run_locks().items():
        write_whole(ROOT / name, text)
