"""A change in a file that a case is made from is noticed; a change in another file is not."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ethos_hil.suites.trial import model_fingerprint
from ethos_hil.suites.trial.model_fingerprint import files_of, reading, unchanged


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a package whose test file imports a model, which imports its layers relatively."""
    package = tmp_path / "proj"
    package.mkdir()
    files = {
        "__init__.py": "",
        "conftest.py": "",
        "test_net.py": "from proj import net\n",
        "net.py": "def forward(x):\n    from .layers import twice\n    return twice(x)\n",
        "layers.py": "def twice(x):\n    return 2 * x\n",
        "test_other.py": "",
        "unrelated.py": "",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in files:
        importlib.import_module(f"proj.{name.removesuffix('.py')}" if name != "__init__.py" else "proj")
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "proj"]:
        del sys.modules[name]


def names(files: dict[str, str], project: Path) -> set[str]:
    return {Path(path).name for path in files if Path(path).is_relative_to(project)}


def test_it_is_made_from_what_its_file_imports_and_so_on(project: Path) -> None:
    files = files_of([project / "test_net.py"])
    assert names(files, project) == {"__init__.py", "conftest.py", "test_net.py", "net.py", "layers.py"}
    ours = {
        Path(path).name
        for path in files
        if Path(path).is_relative_to(Path(model_fingerprint.__file__).resolve().parents[1])
    }
    assert {"build.py", "case.py"} <= ours
    assert not any("site-packages" in path for path in files)


def test_where_imports_are_computed_every_module_counts(project: Path) -> None:
    (project / "net.py").write_text("import importlib\nlayers = importlib.import_module('proj.' + 'layers')\n")
    assert "unrelated.py" in names(files_of([project / "test_net.py"]), project)


def test_packages_of_another_environment_are_no_part_of_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a virtual environment includes the system's packages."""
    other = tmp_path / "lib/python3.11/site-packages"
    other.mkdir(parents=True)
    (other / "installed_elsewhere.py").write_text("")
    (project / "net.py").write_text("import installed_elsewhere\n")
    monkeypatch.syspath_prepend(str(other))
    importlib.import_module("installed_elsewhere")
    assert names(files_of([project / "test_net.py"]), tmp_path) == {
        "__init__.py",
        "conftest.py",
        "test_net.py",
        "net.py",
    }
    del sys.modules["installed_elsewhere"]


@pytest.mark.parametrize("changed", ["test_net.py", "net.py", "layers.py", "conftest.py"])
def test_a_change_of_any_of_them_is_noticed(project: Path, changed: str) -> None:
    files = files_of([project / "test_net.py"])
    assert unchanged(files)
    with (project / changed).open("a") as stream:
        stream.write("# changed\n")
    assert not unchanged(files)
    (project / changed).unlink()
    assert not unchanged(files)


def test_a_change_of_another_file_is_none(project: Path) -> None:
    files = files_of([project / "test_net.py"])
    (project / "test_other.py").write_text("changed = True\n")
    assert unchanged(files)


def test_data_that_is_read_counts(project: Path) -> None:
    weights = project / "weights.bin"
    weights.write_bytes(b"1")
    with reading() as opened:
        weights.read_bytes()
    files = files_of([project / "test_net.py"], opened)
    assert "weights.bin" in names(files, project)
    weights.write_bytes(b"2")
    assert not unchanged(files)


def test_a_file_that_was_changed_since_the_session_began_is_not_trusted(project: Path) -> None:
    """The old text of the file may have been imported."""
    assert model_fingerprint.unchanged_in_session({str(project / "__init__.py"): ""}) is False
    assert model_fingerprint.unchanged_in_session({model_fingerprint.__file__: ""}) is True
