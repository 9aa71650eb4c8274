"""Environments are made by pip, whole or not at all, kept, and made again when they are broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.scan.tests.small_wheels import only_from, wheel
from ethos_hil.lowering.cache.environments import KeptEnvironments, PipFailed, VersionEnvironment, releases
from ethos_hil.lowering.conditions.process import silent

VELA = "ethos-u-vela"


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptEnvironments:
    """A folder of environments; pip knows two small wheels."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels, VELA, "9.1.0", ["small-thing"])
    wheel(wheels, VELA, "9.2.0", ["not-there-at-all"])
    wheel(wheels, "small-thing", "1.5")
    for name, value in only_from(wheels).items():
        monkeypatch.setenv(name, value)
    return KeptEnvironments(tmp_path / "kept")


def get(environments: KeptEnvironments) -> VersionEnvironment:
    return environments.get(VELA, "9.1.0", silent)


def folders(environments: KeptEnvironments) -> list[str]:
    """What is in the folder, apart from the locks."""
    return sorted(path.name for path in environments.root.glob("*") if path.name != "locks")


def test_two_at_once_install_it_once_and_it_is_found_again(environments: KeptEnvironments) -> None:
    stages: list[str] = []

    assert environments.find(VELA, "9.1.0") is None
    with ThreadPoolExecutor(2) as pool:
        environment, other = pool.map(lambda _: environments.get(VELA, "9.1.0", stages.append), range(2))
    assert stages == [f"Installing {VELA} 9.1.0 into {environments.root}"]
    assert other == environment
    assert environment.packages == {VELA: "9.1.0", "small-thing": "1.5"}
    code = "import sys; sys.path[:] = sys.argv[1:]; import ethos_u_vela as v; print(v.version); import rich"
    command = [sys.executable, "-I", "-S", "-c", code, *environment.alone]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "9.1.0\n"
    assert "No module named 'rich'" in done.stderr, "what is installed here is not in its path"
    assert folders(environments) == [environment.folder.name]
    before = (environment.folder / "environment.json").stat().st_mtime_ns
    shutil.rmtree(os.environ["PIP_FIND_LINKS"])  # pip could not make it again
    assert get(environments) == environment
    assert (environment.folder / "environment.json").stat().st_mtime_ns == before


BREAKS: dict[str, Callable[[Path], object]] = {
    "a file is lost": lambda folder: (folder / "site/small_thing.py").unlink(),
    "a file is cut": lambda folder: (folder / "site/ethos_u_vela.py").write_text(""),
    "a file more": lambda folder: (folder / "site/numpy.py").write_text("raise SystemExit"),
    "half a manifest": lambda folder: (folder / "environment.json").write_text('{"schema_version": 1, "pack'),
    "another version": lambda folder: (folder / "environment.json").write_text(
        (folder / "environment.json").read_text().replace('"9.1.0"', '"9.0.0"')),
    "no folder": shutil.rmtree,
}  # fmt: skip


def test_a_broken_one_is_not_found_and_made_again(environments: KeptEnvironments, tmp_path: Path) -> None:
    whole = get(environments)
    copy = shutil.copytree(whole.folder, tmp_path / "copy")
    for what, damage in BREAKS.items():
        damage(whole.folder)
        assert environments.find(VELA, "9.1.0") is None, what
        shutil.rmtree(whole.folder, ignore_errors=True)
        shutil.copytree(copy, whole.folder)
        assert environments.find(VELA, "9.1.0") == whole
    BREAKS["a file is lost"](whole.folder)
    assert get(environments) == whole
    assert folders(environments) == [whole.folder.name]


def test_one_that_cannot_be_installed_leaves_nothing(environments: KeptEnvironments) -> None:
    with pytest.raises(PipFailed, match="not-there-at-all"):
        environments.get(VELA, "9.2.0", silent)
    assert folders(environments) == []


def test_a_folder_that_cannot_be_written_is_one_error(environments: KeptEnvironments, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="cannot be kept: Not a directory") as caught:
        KeptEnvironments(tmp_path / "file").get(VELA, "9.1.0", silent)
    assert "ETHOS_HIL_CACHE" in str(caught.value.hint)


@pytest.mark.usefixtures("environments")
def test_releases_are_those_of_the_index() -> None:
    """That there is none, harness/cli/tests/test_scan_command.py has."""
    assert releases(VELA) == ("9.2.0", "9.1.0")
