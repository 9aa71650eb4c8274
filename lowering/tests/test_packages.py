"""What `pip install --target` put into a folder is an installed package: its sources are not read for a model's key."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ethos_hil.lowering.made_from import file_watch, model_fingerprint


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a package, a module and what was not installed."""
    folder = tmp_path / "packages"
    for name in ("large/deep/part.py", "single.py", "mine/own.py", "large-1.0.dist-info/RECORD"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (folder / "large-1.0.dist-info/RECORD").write_text(
        "large/deep/part.py,sha256=abc,0\nsingle.py,,\nlarge-1.0.dist-info/RECORD,,\n../../bin/large,,\n"
    )
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def test_its_files_are_installed_and_others_are_the_projects(target: Path) -> None:
    kinds: dict[str, bool] = {"large/deep/part.py": False, "single.py": False, "mine/own.py": True}
    for name, projects in kinds.items():
        path = target / name
        assert (file_watch.of_project(str(path)) is not None, file_watch.counts(path)) == (projects, projects)
        assert file_watch.is_installed(str(path)) is not projects


def test_what_lies_in_the_working_directory_is_worked_on(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(target)
    file_watch._targets.cache_clear()
    file_watch._starts.cache_clear()
    file_watch.of_project.cache_clear()
    assert file_watch.of_project(str(target / "large/deep/part.py")) is not None
    file_watch._targets.cache_clear()
    file_watch._starts.cache_clear()
    file_watch.of_project.cache_clear()


def test_another_version_of_it_makes_another_key(target: Path) -> None:
    def digest() -> str:
        model_fingerprint._digest_of_packages.cache_clear()
        return model_fingerprint.packages()

    before = digest()
    (target / "large-1.0.dist-info").rename(target / "large-1.1.dist-info")
    assert digest() != before


def test_looking_for_it_notes_no_file(target: Path) -> None:
    with file_watch.WATCH.building() as reads:
        file_watch._targets.cache_clear()
        assert target in file_watch.package_folders()
    assert not [path for path in reads.files | reads.passing if path.startswith(str(target))]
