"""The tests that a command line selects, and the error for a wrong one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest

from ethos_hil.base.suffix import SUFFIXES
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.selection import read_selection
from ethos_hil.suites.declare.case import PROFILES
from ethos_hil.suites.tests.session import ROOT, SAMPLE, session

pytest_plugins = "pytester"

HEAVY = (
    *("torch", "executorch", "numpy", "pandas", "sklearn", "skimage", "PIL", "ethosu", "rich"),
    "ethos_hil.harness.run",
)
PROBE = f"""
import json, sys
from pathlib import Path

def pytest_collection_finish(session):
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    Path("probe.json").write_text(json.dumps([loaded, [item.nodeid for item in session.items]]))
"""
UNWANTED = "-p no:anyio -p no:hydra_pytest -p no:hypothesispytest -p no:kgb"
"""As in pyproject.toml."""
DECLARED, _, _ = SAMPLE.read_text().partition("DEFECT = ")
USAGE = 4
"""pytest's exit status for a command line that it cannot use."""


def test_collecting_the_suites_imports_neither_torch_nor_numpy(tmp_path: Path) -> None:
    """This keeps it below 1.5 seconds."""
    (tmp_path / "probe.py").write_text(PROBE.replace('"probe.json"', repr(str(tmp_path / "probe.json"))))
    path = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"}
    result = session(tmp_path, "--collect-only", "-q", "-p", "probe", "suites", environment=path)
    assert result.status == 0, result.output
    loaded, tests = json.loads((tmp_path / "probe.json").read_text())
    assert not loaded
    assert {test.split("/")[1] for test in tests} == {"ops", "models"}
    for suffix in SUFFIXES:
        assert any(test.endswith(f"_{suffix}") for test in tests), suffix


def test_without_the_plugin_nothing_is_green() -> None:
    """Without it no declaration is a test, and a session would have only the other tests."""
    command = [sys.executable, "-m", "pytest", "-p", "no:ethos_hil", "suites/tests/test_expectation.py"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert process.returncode == USAGE
    assert "the pytest plugin of ethos-hil is not installed: run make setup" in process.stderr


def test_make_test_names_all_of_them() -> None:
    """It runs pytest without arguments; `suites` among the paths would leave them out."""
    paths = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]
    assert "suites" not in paths
    for folder in ROOT.joinpath("suites").rglob("tests"):
        assert any(folder.is_relative_to(ROOT / path) for path in paths), folder


@pytest.fixture
def sample(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return a folder with the sample's declarations, and a function whose name ends in a profile."""
    pytester.makepyfile(test_sample=DECLARED + "\n\ndef test_function_U55_BI():\n    pass\n")
    pytester.makeini(f"[pytest]\naddopts = -p no:cacheprovider {UNWANTED} --runs runs\n")
    return pytester


def names(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    """Return the names of the selected tests."""
    result = pytester.runpytest_inprocess("--collect-only", "-q", *arguments)
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def cases(suffixes: Sequence[str], labels: Sequence[str] = ("plus_same", "plus_itself", "wrong_operator")) -> set[str]:
    return {f"test_{label}_{suffix}" for label in labels for suffix in suffixes}


ALL = list(PROFILES)
IMPORTS = "from ethos_hil.suites.declare.case import Operator, case, f32\n"


def test_without_options_everything_is_run(sample: pytest.Pytester) -> None:
    tests = names(sample)
    assert set(tests) == cases(ALL) | {"test_function_U55_BI"}
    assert tests[:5] == [f"test_plus_same_{name}" for name in ALL], "one case's profiles stand together"


@pytest.mark.parametrize(
    ("suffixes", "profiles"),
    [("BI", ["BI"]), ("INT", ["BI"]), ("fp", ["MI"]), ("U85_BI", ["U85_BI"]), ("MI U65_BI", ["MI", "U65_BI"])],
)
def test_a_suffix_is_exact_and_repeatable(sample: pytest.Pytester, suffixes: str, profiles: list[str]) -> None:
    assert set(names(sample, *(f"--suffix={suffix}" for suffix in suffixes.split()))) == cases(profiles)


def test_each_case_is_in_one_shard_with_all_its_profiles(sample: pytest.Pytester) -> None:
    many = 'many = Operator("many", aten=(), cases=tuple(case(f"c{n}", abs, f32(1)) for n in range(30)))\n'
    sample.makepyfile(test_sample=IMPORTS + many)
    shards = [names(sample, "--run-name=none", f"--shard={number}/3") for number in (1, 2, 3)]
    assert sorted(chain(*shards)) == sorted(names(sample))
    assert min(map(len, shards)) > 30 * len(ALL) / 6
    for shard in shards:
        assert set(shard) == cases(ALL, sorted({"_".join(name.split("_")[1:3]) for name in shard}))
    assert read_selection(sample.path / "runs/none", "") is None, "nothing was to run"


def test_every_nth_case_of_each_file_is_taken_with_all_its_profiles(sample: pytest.Pytester) -> None:
    sample.makepyfile(test_one=IMPORTS + 'one = Operator("one", aten=(), cases=(case("x", abs, f32(1)),))\n')
    taken = cases(ALL, ["one_x", "plus_same", "wrong_operator"])
    assert set(names(sample, "--one-in=2", "-k", "not function")) == taken


UNUSABLE = [
    *("--suffix=U55BI", "--npu=ethos-u55-127", "--npu=ethos-u55-64 --npu=ethos-u55-256", "--target=virtuel"),
    *("--target=board:nobody", "--target=board:nobody --npu=ethos-u55-128", "--memory-mode=Shared"),
    *("--target=corstone-300 --strict-waits", "--target=corstone-300 --strict-board", "--one-in=0", "--resume"),
    *("--run-name=../x", "--shard=3/2", "--run-name=x --runs=/proc/x", "--runs=/proc/x"),
]


def test_what_cannot_be_used_is_told_in_one_line(sample: pytest.Pytester, recorded: Recorded) -> None:
    answers = {}
    for arguments in UNUSABLE:
        result = sample.runpytest_inprocess(*arguments.split())
        assert result.ret == USAGE
        (answers[arguments],) = [line for line in result.errlines if line.strip()]
    recorded.check(answers)


def test_two_declarations_of_one_name_are_refused(sample: pytest.Pytester) -> None:
    sample.makepyfile(
        test_twice=IMPORTS + "a = Operator('plus', ('add.Tensor',), (case('x_y', lambda a: a + a, f32(7)),))\n"
        "b = Operator('plus_x', ('add.Tensor',), (case('y', lambda a: a + a, f32(7)),))\n"
    )
    result = sample.runpytest_inprocess("test_twice.py")
    assert result.ret == USAGE
    result.stderr.fnmatch_lines(["ERROR: test_twice.py::test_plus_x_y_* is declared twice*"])


DOCUMENT = ROOT / "docs/suites.md"


def test_the_documents_example_declares_tests(sample: pytest.Pytester) -> None:
    _, _, rest = DOCUMENT.read_text().partition("```python\n")
    sample.makepyfile(test_example=rest.partition("```")[0])
    assert set(names(sample, "test_example.py")) == cases(ALL, ["add_same", "add_itself", "relu_module"])


def test_the_documents_options_exist(sample: pytest.Pytester) -> None:
    named = set(re.findall(r"--[a-z][a-z-]+", DOCUMENT.read_text()))
    known = set(re.findall(r"--[a-z][a-z-]+", "\n".join(sample.runpytest_inprocess("--help").outlines)))
    aliases = {"--junitxml"}  # of --junit-xml, which alone is in the help
    assert named <= known | aliases, named - known
