"""What users install is a part of the tested set, with the same hashes, whole, and without developers' tools."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ethos_hil.suites.lab.run_locks import MERGE, ROOT, RUN, WHOLE, run_locks

pytestmark = pytest.mark.product


def pins(lock: Path) -> dict[str, str]:
    """The lines of each package by its name: its pin, and its hashes."""
    matches = re.finditer(r"^([^\s#]+)==.*\n(?: .*\n)*", lock.read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(match[1]): match[0] for match in matches}


@pytest.mark.parametrize("name", [RUN, MERGE])
def test_a_lock_is_the_part_of_the_tested_set_that_make_lock_takes_and_is_whole(name: str) -> None:
    assert (ROOT / name).read_text("utf-8") == run_locks()[name], "run `make lock`"
    mine, whole = pins(ROOT / name), pins(ROOT / WHOLE)
    assert mine == {package: whole[package] for package in mine}
    # What a package needs is in it, too: read from the packages' own metadata, not by what wrote the lock.
    there = {*mine, *(("torch", "setuptools") if name == RUN else ())}  # each has a lock of its own
    for package in sorted(there):
        for requirement in map(Requirement, metadata.requires(package) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in there, f"{package} needs {requirement.name}"


def test_users_install_no_tools_of_developers_and_the_merging_job_nothing_that_lowers() -> None:
    run, merge, whole = (set(pins(ROOT / name)) for name in (RUN, MERGE, WHOLE))
    assert {"executorch", "ethos-u-vela", "tosa-tools", "pytest", "pytest-xdist"} <= run < whole
    assert not {"mypy", "ruff", "playwright", "sphinx", "uv", "scikit-image"} & run
    assert merge < run
    assert not {"executorch", "torchao", "tosa-tools", "pytest"} & merge
    assert len(run) < 100 < len(whole)


def test_a_package_that_pyproject_asks_for_in_addition_is_in_the_lock(tmp_path: Path) -> None:
    (tmp_path / WHOLE).write_bytes((ROOT / WHOLE).read_bytes())
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    (tmp_path / "pyproject.toml").write_text(project.replace('"pyserial~=3.5",', '"pyserial~=3.5", "pyyaml",'))
    assert "\npyyaml==" not in run_locks()[MERGE]
    assert "\npyyaml==" in run_locks(tmp_path)[MERGE]
