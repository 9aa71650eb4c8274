"""`make check` runs the tests of what changed, and sees what fails in them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import typer

from ethos_hil.suites.lab import changed


def test_the_tests_of_a_file_are_those_that_import_it_or_are_beside_it() -> None:
    tests = changed.tests_of(["src/ethos_hil/base/record.py"])
    assert {"results/tests/test_store.py", "src/ethos_hil/base/tests/test_record.py"} <= set(tests)
    assert "harness/npu/tests/test_rounding.py" not in tests
    assert changed.tests_of(["results/tests/test_store.py"]) == ["results/tests/test_store.py"]
    beside = {str(path.relative_to(changed.ROOT)) for path in (changed.ROOT / "results/tests").glob("test_*.py")}
    assert set(changed.tests_of(["results/imported_by_none.py"])) == beside
    assert {test.rpartition("/")[0] for test in changed.tests_of(["firmware/npu/driver.cc"])} == {"firmware/tests"}
    assert changed.tests_of(["README.md"]) == []


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit on its main branch."""
    for command in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("text", "status"), [("assert True", 0), ("assert False", 1)])
def test_a_failure_in_what_is_new_is_seen(repository: Path, text: str, status: int) -> None:
    assert changed.changed("main") == []
    (repository / "pyproject.toml").write_text('[tool.mypy]\nfiles = ["tests"]\n')
    (repository / "tests").mkdir()
    (repository / "tests/test_new.py").write_text(f"def test_new() -> None:\n    {text}\n")
    assert changed.changed("main") == ["pyproject.toml", "tests/test_new.py"]
    with pytest.raises(typer.Exit) as ended:
        changed.main("main")
    assert ended.value.exit_code == status
