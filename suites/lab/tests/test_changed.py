"""`make check` runs the tests of what changed, sees what fails in them, and ends in time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ethos_hil.suites.lab import changed

WAYS = [
    pytest.param([], id="one process", marks=pytest.mark.proof),
    pytest.param(["-n", "2", "--dist", "worksteal"], id="xdist"),
]
"""Of running a session."""


def test_the_tests_of_a_module_are_those_that_import_it() -> None:
    tests = changed.tests_of(["src/ethos_hil/base/record.py"])
    assert tests[0].startswith("src/ethos_hil/base/tests/"), "the nearest come first"
    assert "results/tests/test_store.py" in tests
    assert "src/ethos_hil/base/tests/test_record.py" in tests
    assert "harness/npu/tests/test_rounding.py" not in tests


def test_a_module_that_no_test_imports_has_the_tests_beside_it() -> None:
    beside = {str(path.relative_to(changed.ROOT)) for path in (changed.ROOT / "results/tests").glob("test_*.py")}
    assert set(changed.tests_of(["results/imported_by_none.py"])) == beside


def test_a_test_is_its_own_and_sources_in_cpp_have_the_firmwares() -> None:
    assert changed.tests_of(["results/tests/test_store.py"]) == ["results/tests/test_store.py"]
    assert all(test.startswith("firmware/tests/") for test in changed.tests_of(["firmware/npu/driver.cc"]))
    assert changed.tests_of(["firmware/npu/driver.cc"])


def test_a_file_of_the_laboratory_has_its_tests() -> None:
    """`make test` runs few of them."""
    assert changed.tests_of(["suites/lab/crew.py"])[0] == "suites/lab/tests/test_crew.py"
    assert set(changed.tests_of(["suites/lab/conftest.py"])) >= {"suites/lab/tests/test_changed.py"}


def test_documents_have_no_tests() -> None:
    assert changed.tests_of(["README.md"]) == []


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit on its main branch."""
    for command in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    return tmp_path


def test_what_is_new_edited_or_committed_on_a_branch_has_changed(repository: Path) -> None:
    assert changed.changed("main") == []
    (repository / "new.py").write_text("")
    assert changed.changed("main") == ["new.py"]


def session(folder: Path, seconds: float, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, changed.STOP_AFTER: str(time.time() + seconds)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "ethos_hil.suites.lab.changed", *arguments, str(folder)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("arguments", WAYS)
def test_a_session_ends_in_time_and_says_what_it_left_out(tmp_path: Path, arguments: list[str]) -> None:
    text = "import pytest, time\n@pytest.mark.parametrize('n', range(900))\ndef test_slow(n):\n    time.sleep(0.1)\n"
    (tmp_path / "test_many.py").write_text(text)
    done = session(tmp_path, 2, *arguments)
    assert done.returncode == 0, done.stdout
    run = re.search(r"the time was up after (\d+) tests", done.stdout)
    assert run is not None
    assert int(run[1]) < 60, "two workers, 0.1 s each, 2 s, and time to start"


@pytest.mark.parametrize("arguments", WAYS)
def test_a_failure_is_seen_although_the_time_is_up(tmp_path: Path, arguments: list[str]) -> None:
    text = "import os, time\ndef test_wrong():\n    time.sleep(max(0, float(os.environ['END']) - time.time()))\n"
    text = text.replace("END", changed.STOP_AFTER) + "    assert 0\n"
    others = "".join(f"def test_right_{number}():\n    pass\n" for number in range(50))
    (tmp_path / "test_wrong.py").write_text(text + others)
    done = session(tmp_path, 5, *arguments)
    assert done.returncode != 0
    assert "1 failed" in done.stdout


def test_with_time_left_nothing_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_right.py").write_text("def test_right():\n    pass\n")
    done = session(tmp_path, 50)
    assert done.returncode == 0
    assert "the time was up" not in done.stdout
