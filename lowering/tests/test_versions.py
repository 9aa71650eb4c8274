"""The digest of the lowering code is part of an artifact's key: no edit of that code may leave the digest as it was."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tomllib
from pathlib import Path

import pytest

import ethos_hil.lowering
from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.cache import versions as code
from ethos_hil.lowering.cache.versions import NOT_SHIPPED, installed_digest, source_digest, versions

HERE = Path(ethos_hil.lowering.__file__).parent
MODULES = sorted(
    path.relative_to(HERE)
    for path in HERE.rglob("*.py")
    if not {"tests", "testing"} & set(path.relative_to(HERE).parts)
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE, tmp_path / "lowering", ignore=shutil.ignore_patterns("__pycache__")))


def test_an_edit_of_any_module_however_deep_moves_the_digest(copy: Path) -> None:
    assert len({len(module.parts) for module in MODULES}) > 1, "no module in a subpackage is left to test"
    digests = {source_digest(copy)}
    for module in MODULES:
        with (copy / module).open("a") as file:
            file.write("# an edit\n")
        digest = source_digest(copy)
        assert digest not in digests, f"{module} is not part of the digest"
        digests.add(digest)


def test_what_no_wheel_has_does_not_move_the_digest(copy: Path) -> None:
    """A laptop's checkout and CI's wheel of one commit are one state, and share what is lowered."""
    whole = source_digest(copy)
    (copy / "tests" / "test_more.py").write_text("")
    (copy / "testing" / "more.py").write_text("")
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__" / "versions.cpython-311.pyc").write_bytes(b"?")
    assert source_digest(copy) == whole
    shutil.rmtree(copy / "tests")
    shutil.rmtree(copy / "testing")
    assert source_digest(copy) == whole


def test_the_folders_that_do_not_count_are_those_that_setuptools_leaves_out() -> None:
    project = tomllib.loads((HERE.resolve().parent / "pyproject.toml").read_text())
    left_out = project["tool"]["setuptools"]["packages"]["find"]["exclude"]
    assert {pattern[2:].removesuffix(".*") for pattern in left_out if pattern.startswith("*.")} == NOT_SHIPPED


def test_the_versions_of_an_artifact_have_the_digest_of_the_code_that_runs() -> None:
    assert versions()["ethos-hil-lowering"] == source_digest(*code._PARTS)[:16]


def test_another_build_of_the_same_version_moves_the_digest() -> None:
    record = "vela/a.py,sha256=abc,10\nvela/b.py,sha256=def,11\n"
    assert installed_digest(record) != installed_digest(record.replace("def", "fed"))
    assert installed_digest(record) == installed_digest(record + "../../../bin/vela,sha256=abc,200\n")


@pytest.mark.parametrize("package", code._PACKAGES)
def test_each_package_that_makes_artifacts_counts(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its version, and by what was installed of it."""

    class Other(importlib.metadata.Distribution):
        def read_text(self, filename: str) -> str:
            return "other,sha256=0,1\n" if filename == "RECORD" else "Version: 0\n"

        def locate_file(self, path: str | os.PathLike[str]) -> Path:
            return Path(path)

    real = importlib.metadata.distribution
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Other() if name == package else real(name))
    mine = code._find_versions.__wrapped__()
    assert mine[package] == "0"
    assert {name for name, value in mine.items() if value != versions()[name]} == {package, "ethos-hil-installed"}


def test_code_that_is_edited_after_the_process_began_keeps_no_artifact(monkeypatch: pytest.MonkeyPatch) -> None:
    code.check_source_unchanged()
    monkeypatch.setattr(code, "_SOURCE", "0" * 16)
    with pytest.raises(ToolError, match="was changed"):
        code.check_source_unchanged()


def test_patches_off_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ETHOS_HIL_PATCHES", raising=False)
    on = versions()
    monkeypatch.setenv("ETHOS_HIL_PATCHES", "off")
    assert versions() == on | {"ethos-hil-patches": "off"} != on
