"""Tests of the environment run until they have passed, and again as soon as something that they read has changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ethos_hil.base.testing.environment import EnvironmentTests

TESTS = """
import pytest

pytestmark = pytest.mark.environment(contents=["docs/**/*.md", "one.txt"], names=["room/**/*.py"])

def test_first():
    assert open("one.txt").read() != "wrong"

@pytest.mark.skipif(open("one.txt").read() == "absent", reason="it is not there")
def test_second():
    pass
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("docs/page.md", "room/module.py", "room/tests/test_module.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# before")
    (tmp_path / "one.txt").write_text("right")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = environment:")
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text("def test_third(): pass")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # loading them takes longer than these tests
    return tmp_path


def run(checkout: Path, *arguments: str, only_changed: bool = True) -> list[str]:
    """Return the names of the tests that ran, in a session in this process."""

    class Names(list[str]):
        def pytest_runtest_logstart(self, nodeid: str) -> None:
            self.append(nodeid.partition("::")[2])

    for module in ("test_it", "test_other"):  # of the session before
        sys.modules.pop(module, None)
    names = Names()
    plugins = [EnvironmentTests(checkout, only_changed), names]
    pytest.main(["-q", "-p", "no:cacheprovider", "--import-mode=importlib", *arguments], plugins=plugins)
    return names


ALL = ["test_first", "test_second", "test_third"]


def test_what_has_passed_runs_again_when_something_that_it_reads_has_changed(checkout: Path) -> None:
    assert run(checkout) == ALL
    assert run(checkout) == ["test_third"]
    assert run(checkout, only_changed=False) == ALL, "at night"
    (checkout / "docs/__pycache__").mkdir()
    not_read = ("docs/__pycache__/page.md", "room/module.py", "room/tests/test_module.py")
    read = ("docs/page.md", "one.txt", "pyproject.toml", "room/new.py", "docs/new.md")
    for name in (*not_read, *read):
        (checkout / name).write_text("# after")
        assert run(checkout) == (ALL if name in read else ["test_third"]), name


def test_a_part_of_a_file_or_one_with_a_failure_or_with_a_test_that_did_not_run_is_not_done(checkout: Path) -> None:
    for content in ("wrong", "absent"):
        (checkout / "one.txt").write_text(content)
        assert [run(checkout), run(checkout)] == [ALL, ALL]
    (checkout / "one.txt").write_text("right")
    assert run(checkout, "-k", "first") == ["test_first"]
    assert run(checkout) == ALL
    assert run(checkout, "-k", "second") == ["test_second"]
