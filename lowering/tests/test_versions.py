"""The digest of the lowering code is part of an artifact's key: no edit of that code may leave the digest as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ethos_hil.lowering
from ethos_hil.lowering.versions import source_digest, versions

HERE = Path(ethos_hil.lowering.__file__).parent
MODULES = sorted(path.relative_to(HERE) for path in HERE.rglob("*.py") if "tests" not in path.relative_to(HERE).parts)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE, tmp_path / "lowering", ignore=shutil.ignore_patterns("__pycache__")))


def test_an_edit_of_any_module_however_deep_moves_the_digest(copy: Path) -> None:
    assert len({len(module.parts) for module in MODULES}) > 1, "no module in a subpackage is left to test"
    seen = {source_digest(copy)}
    for module in MODULES:
        with (copy / module).open("a") as file:
            file.write("# an edit\n")
        digest = source_digest(copy)
        assert digest not in seen, f"{module} is not part of the digest"
        seen.add(digest)


def test_a_module_that_moves_or_goes_moves_the_digest(copy: Path) -> None:
    whole = source_digest(copy)
    deepest = copy / max(MODULES, key=lambda module: len(module.parts))
    moved = deepest.rename(copy / "moved.py")
    assert source_digest(copy) != whole
    moved.unlink()
    assert source_digest(copy) != whole


def test_a_test_does_not_move_the_digest(copy: Path) -> None:
    whole = source_digest(copy)
    (copy / "tests" / "test_more.py").write_text("")
    assert source_digest(copy) == whole


def test_the_versions_of_an_artifact_have_the_digest_of_the_code_that_runs() -> None:
    assert versions()["ethos-hil-lowering"] == source_digest(HERE)[:16]
