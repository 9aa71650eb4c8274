"""What a case depends on beside its own text is noticed.

Every case here is lowered, something that it read is changed, and it must be lowered again. All are in one project,
and everything is changed at once. So each case has files of its own, and one case depends on nothing of this: it must
not be lowered again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ethos_hil.base.record import Record
from ethos_hil.harness.campaign.recorded import records_of
from ethos_hil.suites.tests.session import session

pytestmark = pytest.mark.slow

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
    forward: str = "lambda x: x * FACTOR"  # it multiplies by what was found
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
    "lazy": Attack(
        "def forward(x):\n    import lazily\n    return x * lazily.FACTOR\n",
        {"lazily.py": "FACTOR = 2.0\n"},
        {"lazily.py": "FACTOR = 0.5\n"},
        "forward",
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


def test_each_change_is_noticed_and_all_else_is_found(tmp_path: Path) -> None:
    everything = {**ATTACKS, **UNKNOWN}
    for name, attack in everything.items():
        _write(tmp_path / name, {f"test_{name}.py": attack.before + _CASE.format(name=name, forward=attack.forward)})
        _write(tmp_path / name, attack.files)
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
