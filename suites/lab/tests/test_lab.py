"""The entry point, and `make lab`: a part that fails is seen, the others run, and the table says how each ended."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from itertools import chain, combinations

import pytest
import typer
from _pytest.mark.expression import Expression

from ethos_hil.suites.lab import parts
from ethos_hil.suites.lab.__main__ import main
from ethos_hil.suites.lab.parts import LAB, PARTS, commands_of, words_of
from ethos_hil.suites.lab.shared import ROOT
from ethos_hil.suites.lab.tests.running import assert_refused, run_part


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
        assert_refused(arguments, "the laboratory has no part 'conformity' (there are ")
    done = run_part("conformity")
    assert done.returncode == 2
    assert done.stderr.startswith("ethos-hil: the laboratory has no part 'conformity' (there are all, conformance,")
