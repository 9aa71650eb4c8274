"""Mutants of our own code: what is changed, and that a change which the tests see is told from one that they do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Container
from pathlib import Path

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.suites.lab.measure.mutants import firmware, session
from ethos_hil.suites.lab.measure.mutants.changes import CodeChange, change, draw, places, reasons, why_equivalent
from ethos_hil.suites.lab.measure.mutants.command import FIRMWARE, ROOMS, ROOT
from ethos_hil.suites.lab.measure.mutants.session import KILLED, MutationJob

SOURCE = '''
from functools import cache

LIMIT = 3

def above(x: int, strict=False) -> bool:
    """No text, no annotation and no assertion is changed."""
    assert x > -1
    if x == 7:
        raise ValueError(f"{x}: 7")
    return x > LIMIT or not x

@cache
def inside() -> int:
    def nested(x):
        return x + 1
    return nested(2)

def never_called():
    return 5
'''
TESTS = """
import gc, sys
import pytest
import ethos_hil_subject as subject

gc.freeze()  # as torch's imports are

def test_above():
    assert subject.above(4) and subject.above(0) and not subject.above(2)

def test_inside():
    assert subject.inside() == 3

def test_another_process():
    import subprocess
    command = [sys.executable, "-c", "import ethos_hil_subject as s; s.above(7)"]
    assert b"ValueError" in subprocess.run(command, stderr=subprocess.PIPE).stderr
"""


def mutants_of(root: Path, file: str, *lines: Container[int]) -> list[CodeChange]:
    """Return all mutants of a file, or of some of its lines."""
    return [change(root, name, node, way) for name, node, ways in places(root, file, *lines) for way in range(ways)]


def test_operators_numbers_conditions_and_guards_are_changed(tmp_path: Path, recorded: Recorded) -> None:
    (tmp_path / "source.py").write_text(SOURCE)
    mutants = mutants_of(tmp_path, "source.py")
    recorded.check("\n".join(f"{mutant.line}: {mutant.before} -> {mutant.after}" for mutant in mutants))


def test_a_seed_draws_the_same_mutants_and_every_room_has_some() -> None:
    for name, room in ROOMS.items():
        of_room = firmware.draw if name == FIRMWARE else draw
        drawn = of_room(ROOT, room.files, 5, seed=3)
        assert len(drawn) == 5, name
        assert drawn == of_room(ROOT, room.files, 5, seed=3)
        assert drawn != of_room(ROOT, room.files, 5, seed=4)
        assert all((ROOT / test).exists() for test in room.tests), name


def test_operators_and_numbers_of_cpp_are_changed_and_nothing_else(tmp_path: Path, recorded: Recorded) -> None:
    (tmp_path / "source.cc").write_text(
        "#include <x>  // a < b\nstatic_assert(1 < 2);\n"
        'std::vector<int> f(int a) {\n  log("a + 1 < 2");\n  return a + 10 <= 0x10 && a < -1 ? a : b;\n}\n'
    )
    mutants = {mutant for seed in range(20) for mutant in firmware.draw(tmp_path, ["source.cc"], 99, seed)}
    recorded.check(sorted(f"{mutant.line}: {mutant.before} -> {mutant.after}" for mutant in mutants))


def test_every_equivalent_mutant_is_one_that_can_be_drawn() -> None:
    """An entry whose line has changed would excuse nothing, or something else."""
    there_are = set()
    for file in {file for file, _, _ in reasons()}:
        texts = {text for name, text, _ in reasons() if name == file}
        lines = [
            number for number, line in enumerate((ROOT / file).read_text().splitlines(), 1) if line.strip() in texts
        ]
        for mutant in mutants_of(ROOT, file, lines):
            there_are.add((mutant.file, mutant.text, f"{mutant.before} -> {mutant.after}"))
    assert reasons().keys() <= there_are
    assert all(reasons().values())
    assert why_equivalent(draw(ROOT, ["harness/link/frames.py"], 1, seed=1)[0]) == ""


def test_what_the_tests_see_is_told_from_what_they_do_not(tmp_path: Path, recorded: Recorded) -> None:
    """All mutants of a source with three tests: fate and killer by place and change."""
    root, folder = tmp_path / "checkout", tmp_path / "job"
    root.mkdir()
    folder.mkdir()
    (root / "ethos_hil_subject.py").write_text(SOURCE)
    (root / "test_subject.py").write_text(TESTS)
    (root / "pytest.ini").write_text("[pytest]\n")
    mutants = mutants_of(root, "ethos_hil_subject.py")
    job = MutationJob(str(root), str(folder), ["ethos_hil_subject.py"], mutants, 2, 60.0, 60.0, False)
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, session.JOB: str(job.save()), session.PRELOAD: "", "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", *session.OPTIONS, "-s", "-p", session.__name__, "test_subject.py"]
    subprocess.run(command, cwd=root, env=environment, check=False, capture_output=True)
    result = json.loads((folder / "result.json").read_text())
    fates = {
        f"{fate['mutant']['line']}: {fate['mutant']['before']} -> {fate['mutant']['after']}": (fate["fate"], fate["by"])
        for fate in result["fates"]
    }
    recorded.check({mutant: fate for mutant, (fate, _) in sorted(fates.items())})
    assert fates["4: 3 -> 4"] == (KILLED, "the process ended with 1")  # while it is imported: a pytest of its own
    assert fates["9: x == 7 -> False"] == (KILLED, "test_subject.py::test_another_process")
    assert fates["16: x + 1 -> x - 1"] == (KILLED, "test_subject.py::test_inside")
