"""The entry point, `make lab` and `make check`: what fails is seen, the others run, and it is said how each ended."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from itertools import chain, combinations
from pathlib import Path

import pytest
import typer
from _pytest.mark.expression import Expression

from ethos_hil.base.errors import UsageError
from ethos_hil.suites.lab import changed, parts
from ethos_hil.suites.lab.__main__ import main
from ethos_hil.suites.lab.parts import LAB, PARTS, commands_of, words_of
from ethos_hil.suites.lab.shared import ROOT
from ethos_hil.suites.lab.tests.running import run_part


def python(code: str) -> str:
    return shlex.join((sys.executable, "-c", code))


def test_a_part_that_fails_ends_with_1_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fine, broken = python("print('it works')"), python("raise SystemExit(3)")
    monkeypatch.setattr(parts, "LAB", {"first": [fine], "second": [fine, broken, fine], "third": [fine]})
    with pytest.raises(typer.Exit) as ended:
        parts.main(None, 2, 1)
    assert ended.value.exit_code == 1
    out, errors = capfd.readouterr()
    assert out.count("it works") == 3
    rows = [line.split() for line in out.splitlines() if line.startswith(("first", "second", "third"))]
    assert [row[:2] for row in rows] == [["first", "passed"], ["second", "failed,"], ["third", "passed"]]
    assert rows[1][2:4] == ["status", "3"]
    assert "raise SystemExit(3)" in out
    assert f"== second: {fine}" in errors


def among(markers: tuple[str, ...]) -> Callable[..., bool]:
    return lambda name, /, **_: name in markers


@pytest.mark.product
def test_every_test_is_part_of_make_test_or_of_make_lab_and_none_of_both() -> None:
    """Whatever markers it has: one that is in neither would guard nothing."""
    (ours,) = re.findall(r'-m pytest .*-m "([^"]+)"', (ROOT / "Makefile").read_text())
    commands = [words_of(command) for name in ("proofs", "tests") for command in LAB[name] if "pytest" in command]
    expressions = [Expression.compile(text) for text in (ours, *(command[-1] for command in commands))]
    assert [command[-2] for command in commands] == ["-m", "-m"]
    markers = ("proof", "lab", "slow", "product")
    for chosen in chain.from_iterable(combinations(markers, count) for count in range(len(markers) + 1)):
        assert sum(expression.evaluate(among(chosen)) for expression in expressions) == 1, chosen
    (nightly,) = map(words_of, LAB["environment"])
    assert nightly[-1] == f"environment and {ours}"
    assert "--if-changed" not in nightly


@pytest.mark.parametrize("name", LAB)
def test_the_commands_of_each_part_exist_and_know_their_options(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in commands_of(name, jobs=2, seed=20270131):
        first, *others = shlex.split(command)
        assert first in (*PARTS, "make", "pytest", "sh")
        if first in PARTS:
            PARTS[first].command().make_context(first, others)  # parses, and runs nothing
        elif first == "make":
            assert all(f"{target}:" in makefile for target in others)


def test_all_parts_are_listed_and_an_unknown_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == list(PARTS)
    for arguments in (["conformity"], ["all", "conformity"]):
        with pytest.raises(UsageError, match="the laboratory has no part 'conformity'"):
            main(arguments)
    done = run_part("conformity")
    assert done.returncode == 2
    assert done.stderr.startswith("ethos-hil: the laboratory has no part 'conformity' (there are all, conformance,")


# `make check` runs the tests of what changed, and sees what fails in them.


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
