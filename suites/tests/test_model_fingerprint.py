"""A change in what a case is made from, beside its own text, is noticed; a change in another file is not."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ethos_hil.base.record import Record
from ethos_hil.harness.campaign.recorded import records_of
from ethos_hil.lowering.made_from import model_fingerprint
from ethos_hil.lowering.made_from.file_watch import SUITES, WATCH
from ethos_hil.lowering.made_from.model_fingerprint import (
    Fingerprint,
    changed_file,
    fingerprint,
    read_at_import,
    state_of,
)
from ethos_hil.suites.tests.session import session

IMPORTED = {"__init__.py", "conftest.py", "test_net.py", "net.py", "layers.py"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Watch a package whose test file imports a model, which imports its layers, as a session that declares does."""
    before = WATCH.on
    WATCH.begin()
    WATCH.end_of_collection(declared=True)
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
    WATCH.end_of_collection(declared=before)
    for name in [name for name in sys.modules if name.split(".")[0] == "proj"]:
        del sys.modules[name]


def names(made_from: Fingerprint, project: Path) -> set[str]:
    return {Path(path).name for path in made_from.files if Path(path).is_relative_to(project)}


def unchanged(made_from: Fingerprint, project: Path) -> bool:
    return made_from.why_outdated(read_at_import([project / "test_net.py"])) is None


def test_it_is_made_from_what_its_file_imports_and_so_on(project: Path) -> None:
    made_from = fingerprint([project / "test_net.py"])
    assert names(made_from, project) == IMPORTED
    ours = {Path(path).name for path in made_from.files if Path(path).is_relative_to(SUITES)}
    assert {"build.py", "case.py"} <= ours
    assert not any("site-packages" in path for path in made_from.files)


def test_where_imports_are_computed_every_module_counts(project: Path) -> None:
    (project / "net.py").write_text("import importlib\nlayers = importlib.import_module('proj.' + 'layers')\n")
    assert "unrelated.py" in names(fingerprint([project / "test_net.py"]), project)


def test_modules_of_folders_without_init_that_are_not_imported_yet_count(project: Path) -> None:
    inner = project.parent / "outer/middle/inner"
    inner.mkdir(parents=True)
    (inner / "deep.py").write_text("factor = 3\n")
    (project / "layers.py").write_text(
        "def twice(x):\n    from outer.middle.inner.deep import factor\n    return factor * x\n"
    )
    made_from = fingerprint([project / "test_net.py"])
    assert "outer" not in sys.modules
    assert str(inner / "deep.py") in made_from.files


@pytest.mark.parametrize("changed", ["test_net.py", "net.py", "layers.py", "conftest.py"])
def test_a_change_of_any_of_them_is_noticed(project: Path, changed: str) -> None:
    made_from = fingerprint([project / "test_net.py"])
    assert unchanged(made_from, project)
    with (project / changed).open("a") as stream:
        stream.write("# changed\n")
    assert not unchanged(made_from, project)
    (project / changed).unlink()
    assert not unchanged(made_from, project)


def test_data_that_is_read_counts_and_what_is_written_or_a_pipe_does_not(project: Path) -> None:
    (project / "network.txt").write_text("")
    (project / "weights.bin").write_bytes(b"1")  # native code may read it, as Python reads the file beside it
    with WATCH.building() as built:
        (project / "network.txt").read_bytes()
        (project / "log.txt").write_text("")
        os.close(os.open(project / "log.dat", os.O_WRONLY | os.O_CREAT))
        with tempfile.NamedTemporaryFile(dir=project, suffix=".tmp"), (project / "new.txt").open("w+"):
            pass
        reader, writer = os.pipe()
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            stream.read()
    made_from = fingerprint([project / "test_net.py"], built)
    assert names(made_from, project) == {*IMPORTED, "network.txt", "weights.bin"}
    assert not [path for path in made_from.files if "pipe:" in path]
    (project / "weights.bin").write_bytes(b"2")
    assert not unchanged(made_from, project)


def test_a_file_that_was_changed_or_moved_since_the_session_began_is_not_trusted(project: Path, tmp_path: Path) -> None:
    """The old text of the file may have been imported. One that was moved keeps its time of modification."""
    changed, moved = str(project / "__init__.py"), project / "older.txt"
    assert changed_file([model_fingerprint.__file__, changed]) == changed
    assert changed_file([model_fingerprint.__file__, str(tmp_path / "absent")]) is None
    moved.write_text("")
    os.utime(moved, (1, 1))
    assert changed_file([str(moved)]) == str(moved)


@pytest.mark.parametrize("seconds", [0, 1, 4_000_000_000])
def test_a_file_may_have_any_time_and_a_change_that_keeps_time_and_size_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """An archive, or a clock that was wrong, gives times in the future. Recording would be refused for ever."""
    file = tmp_path / "net.py"
    file.write_text("x = 1")
    os.utime(file, (seconds, seconds))
    time.sleep(0.02)  # the clock of a file system moves in steps
    monkeypatch.setattr(model_fingerprint, "BEGAN", time.time_ns())
    before = state_of(file)
    assert changed_file([str(file)]) is None
    time.sleep(0.02)
    file.write_text("x = 2")
    os.utime(file, (seconds, seconds))
    assert changed_file([str(file)]) == str(file)
    assert state_of(file) != before


def test_a_module_that_was_imported_unseen_is_not_known(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WATCH, "unseen", {"proj.layers": sys.modules["proj.layers"]})
    made_from = fingerprint([project / "test_net.py"])
    assert made_from.unknown == ("layers.py was imported before its reads could be noted",)
    assert not unchanged(made_from, project)


def test_the_values_of_variables_are_not_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be secrets."""
    monkeypatch.setenv("KNOWN_SECRET", "hunter2")
    (project / "net.py").write_text("from ethos_hil import depends_on\ndepends_on(variables=['KNOWN_SECRET'])\n")
    importlib.reload(sys.modules["proj.net"])
    made_from = fingerprint([project / "test_net.py"])
    assert "KNOWN_SECRET" in made_from.variables
    assert "hunter2" not in repr(made_from)
    assert unchanged(made_from, project)
    monkeypatch.delenv("KNOWN_SECRET")
    importlib.reload(sys.modules["proj.net"])  # as another session does
    assert not unchanged(made_from, project)


def test_pytest_checks_the_digest_of_what_it_rewrote(tmp_path: Path) -> None:
    """So what it keeps of a test module is never older than the module, and we need not look at it."""
    path = tmp_path / "test_rewritten.py"
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path), str(path)]
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    for number, status in ((1, 0), (2, 1)):
        path.write_text(f"def test():\n    assert 1 == {number}\n")
        os.utime(path, (1_000_000_000, 1_000_000_000))  # as in an archive
        assert subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True).returncode == status
        assert list((tmp_path / "__pycache__").glob("*-pytest-*.pyc")), "pytest keeps it elsewhere"


# --- In sessions: every case here is lowered, something that it read is changed, and it must be lowered again. All are
# in one project, and everything is changed at once. So each case has files of its own, and one case depends on nothing
# of this: it must not be lowered again.

_CASE = """
from ethos_hil.suites.declare.case import Operator, case, f32

op = Operator("{name}", aten=("mul.Tensor",), cases=(case("one", {forward}, f32(1, 4)),))
"""
_HERE = "from pathlib import Path\nHERE = Path(__file__).parent\n"


@dataclass(frozen=True)
class Attack:
    """What a test file does before it declares a case, other files, and the change of files or variables to notice."""

    before: str
    files: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


ATTACKS = {
    "kept": Attack(  # the first of two files that ask reads it
        "import keeper\nFACTOR = keeper.factor()\n",
        {
            "keeper.py": "import functools\n" + _HERE + "@functools.cache\ndef factor():\n"
            "    return float((HERE / 'k.txt').read_text())\n",
            "k.txt": "2.0",
            "test_again.py": "import keeper\n" + _CASE.format(name="again", forward="lambda x: x * keeper.factor()"),
        },
        {"k.txt": "0.5"},
    ),
    "absent": Attack(
        _HERE + "try:\n    FACTOR = float((HERE / 'override.txt').read_text())\nexcept OSError:\n    FACTOR = 2.0\n",
        {},
        {"override.txt": "0.5"},
    ),
    "spec": Attack(
        _HERE + "import importlib.util as u\nspec = u.spec_from_file_location('anonymous', HERE / 'plain.py')\n"
        "module = u.module_from_spec(spec)\nspec.loader.exec_module(module)\nFACTOR = module.FACTOR\n",
        {"plain.py": "FACTOR = 2.0\n"},
        {"plain.py": "FACTOR = 0.5\n"},
    ),
    "link": Attack(
        _HERE + "FACTOR = float((HERE / 'current').read_text())\n",
        {"one.txt": "2.0", "two.txt": "0.5", "current": "-> one.txt"},
        {"current": "-> two.txt"},
    ),
    "newcomer": Attack(
        "import set_by_newcomer\nFACTOR = set_by_newcomer.FACTOR\n",
        {"set_by_newcomer.py": "FACTOR = 2.0\n"},
        {"conftest.py": "import set_by_newcomer\nset_by_newcomer.FACTOR = 0.5\n"},
    ),
    "variable": Attack(
        "import os\nfrom ethos_hil import depends_on\ndepends_on(variables=['KNOWN_A'])\n"
        "FACTOR = float(os.environ.get('KNOWN_A', '2.0'))\n",
        variables={"KNOWN_A": "0.5"},
    ),
}
"""Cases of which all is known: they are lowered again when it changes."""
UNKNOWN = {
    "fresh": Attack(
        _HERE + "import subprocess as s\nfrom ethos_hil import depends_on\ndepends_on(fresh=True)\n"
        "FACTOR = float(s.check_output(['cat', str(HERE / 'u.txt')]))\n",
        {"u.txt": "2.0"},
        {"u.txt": "0.5"},
    )
}
"""Cases that say that they depend on more, or use what reads files unseen: they are lowered again in every session."""


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.unlink(missing_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text.removeprefix("-> "))
        else:
            path.write_text(text)


def _records(folder: Path) -> Mapping[str, Record]:
    (run,) = (folder / "runs").iterdir()
    records = {record.test.operator: record for record in records_of(run) if record.test is not None}
    shutil.rmtree(folder / "runs")
    return records


@pytest.mark.slow
def test_each_change_is_noticed_and_all_else_is_found(tmp_path: Path) -> None:
    everything = {**ATTACKS, **UNKNOWN}
    for name, attack in everything.items():
        case = _CASE.format(name=name, forward="lambda x: x * FACTOR")  # it multiplies by what was found
        _write(tmp_path / name, {f"test_{name}.py": attack.before + case, **attack.files})
    _write(tmp_path / "control", {"test_control.py": _CASE.format(name="control", forward="lambda x: x * 2.0")})
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "import sys\ndef pytest_unconfigure(config):\n    open('heavy.txt', 'w').write(str('torch' in sys.modules))\n"
    )
    # Python writes bytecode into the folders, as it does for most users.
    cache = {"ETHOS_HIL_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": ""}
    variables = cache | {key: value for attack in everything.values() for key, value in attack.variables.items()}

    def run(*names: str, environment: Mapping[str, str] = cache) -> tuple[str, Mapping[str, Record]]:
        result = session(tmp_path, "--suffix", "MI", *names, root=tmp_path, environment=environment)
        assert result.status == 0, result.output
        return result.output, _records(tmp_path)

    def digests(records: Mapping[str, Record]) -> dict[str, str]:
        return {name: record.artifact.sha256 for name, record in records.items() if record.artifact is not None}

    known = [*ATTACKS, "control"]
    output, first = run(*known, *UNKNOWN)
    noted = [name for name, record in first.items() if any("lowered again" in note for note in record.notes)]
    assert noted == ["fresh"]
    assert "lowered again, as in every session: 1 test; fresh_one: " in output
    before = digests(first)
    same = digests(run(*known)[1])
    assert (tmp_path / "heavy.txt").read_text() == "False", "torch was imported, and nothing was to lower"
    assert all(before[name] == same[name] for name in same)
    for name, attack in everything.items():
        _write(tmp_path / name, attack.changed)
    run("control", environment=variables)
    assert (tmp_path / "heavy.txt").read_text() == "False"
    after = digests(run(*known, *UNKNOWN, environment=variables)[1])
    assert {name for name in after if after[name] == before[name]} == {"control"}
