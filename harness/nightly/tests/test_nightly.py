"""Whole nights: what they leave behind, and how they end."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.testing.processes import wait_until
from ethos_hil.harness.campaign.recorded import records_of
from ethos_hil.harness.campaign.run_folder import nights
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.nightly.tests.plans import QUARANTINE, TESTS, nightly, write
from ethos_hil.results.history import History

ONE = '[[suite]]\npaths = ["test_plus.py"]\nsuffixes = ["U55_BI"]\nexpression = "itself or fatal or function"\n'
LOST = "internal: it was chosen and has no record: "
FATAL = 'case("fatal", lambda a: __import__("os").kill(__import__("os").getpid(), 9), f32(7)),\n        case("same"'
STATING = "\n\ndef test_function_U55_BI(record_property):\n    record_property('verdict', 'verified')\n"
"""It leaves no record, and has run all the same: a night with the photographs of the suites was red for them."""
FUNCTION = "\n\ndef test_function_U55_BI():\n    assert False\n"


def report_of(file: Path, status: int, **variables: str) -> Mapping[str, Any]:
    """Run a night, which must end with a status. Return its report, with what it said on stderr."""
    done = nightly(file, "--json", "out.json", **variables)
    assert done.returncode == status, done.stderr
    report = json.loads((file.parent / "out.json").read_text())
    assert done.stdout == report["sentence"] + "\n"
    return {**report, "stderr": done.stderr}


@pytest.mark.slow
def test_two_nights_and_what_changed_between_them(tmp_path: Path) -> None:
    """In the second one a test fails as its quarantine says, another one kills its process, a test function fails."""
    text = f'[run]\njobs = 1\n{ONE}[compare]\nagainst = "last"\n[history]\nfolder = "history"\n'
    text += '[report]\nfile = "report.html"\n[[export]]\nto = "junit"\nfile = "junit.xml"\n[audit]\none_in = 1\n'
    report = report_of(write(tmp_path, text, TESTS + STATING), 0)
    assert report["sentence"].endswith(": 1 verified (1 of them with less than 15 dB, constant or saturated); green")
    assert report["comparison"] is None
    (night,) = nights(tmp_path / "results/runs")
    parts = [record.run.part for record in records_of(night) if record.run is not None]
    assert sorted(parts) == ["suite 1: virtual", "suite 1: virtual (audit)"]
    assert "test_plus_itself_U55_BI" in (tmp_path / "junit.xml").read_text()
    assert (tmp_path / "report.html").stat().st_size > 10_000

    wrong = TESTS.replace('aten=("add.Tensor",)', 'aten=("sub.Tensor",)').replace('case("same"', FATAL) + FUNCTION
    (tmp_path / "quarantine.toml").write_text(QUARANTINE.format(expires=date.today() + timedelta(20)))
    file = write(tmp_path, f'{text.partition("[audit]")[0]}[quarantine]\nfile = "quarantine.toml"\n', wrong)
    report = report_of(file, 1)
    assert report["counts"] == {"quarantined": 1, "missing": 1}
    assert "".join(test["letter"] for test in report["tests"]) == "MQ"
    assert report["red"][0] == "suite 1: virtual: test_plus.py::test_function_U55_BI failed: assert False"
    assert report["red"][1].startswith(f"M test_plus.py::test_plus_fatal_U55_BI on virtual ethos-u55-128: {LOST}")
    assert report["comparison"]["before"] == night.name
    assert report["comparison"]["passed"] is False, "the gate itself says so; the quarantine allows it"
    assert "the gate passes against" in report["sentence"]


@pytest.mark.slow
def test_where_the_known_model_is_not_verified_nothing_else_runs(tmp_path: Path) -> None:
    """Its process is killed, as by the kernel when memory is short."""
    file = write(tmp_path, f'[run]\njobs = 1\nknown_model = "net.py:killed"\n{ONE}[compare]\nagainst = "last"\n')
    report = report_of(file, 3)
    why = "net.py:killed is not verified there: internal: its process ended with signal 9 before there was an answer"
    assert report["down"] == {"virtual": why}
    (night,) = nights(tmp_path / "results/runs")
    (record,) = records_of(night)
    assert (record.model, record.verdict, record.within.attempt) == ("net.py:killed", "failed", 1)
    assert f"not available: virtual: {why}" in report["stderr"]


def test_a_target_that_is_missing_is_infrastructure(tmp_path: Path) -> None:
    report = report_of(write(tmp_path, f'[run]\ntargets = ["corstone-320"]\n{ONE}'), 3, ETHOS_HIL_FVP_PATH="/nowhere")
    assert "not available: corstone-320: FVP_Corstone_SSE-320 is not in /nowhere" in report["stderr"]
    end = ": nothing ran; not run, because of their target: corstone-320; infrastructure"
    assert report["sentence"].endswith(end)


@pytest.mark.proof
@pytest.mark.slow
def test_what_an_fvp_could_not_try_is_tried_again_and_both_attempts_are_kept(tmp_path: Path) -> None:
    """It has no licence for the first run."""
    install(tmp_path / "bin")
    launcher = tmp_path / "bin/FVP_Corstone_SSE-300_Ethos-U55"
    real = launcher.rename(tmp_path / "bin/real")
    mark = tmp_path / "taken"
    launcher.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*|*--list-*) ;; *) [ -e {mark} ] || '
        f'{{ touch {mark}; echo "license error: denied"; exit 1; }} ;; esac\nexec {real} "$@"\n'
    )
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    file = write(tmp_path, f'[run]\njobs = 1\ntargets = ["corstone-300"]\n{ONE}')
    assert report_of(file, 0, ETHOS_HIL_FVP_PATH=str(tmp_path / "bin"))["counts"] == {"verified": 1}
    (night,) = nights(tmp_path / "results/runs")
    attempts = [
        (record.run.attempt, str(record.verdict), record.failure and str(record.failure.kind))
        for record in records_of(night)
        if record.run is not None
    ]
    assert sorted(attempts) == [(1, "failed", "licence"), (2, "verified", None)]


@pytest.mark.proof
@pytest.mark.slow
def test_two_nights_at_once_of_which_one_is_killed_are_whole_and_both_in_the_history(tmp_path: Path) -> None:
    file = write(tmp_path, f'[run]\njobs = 1\n{ONE}[[model]]\nmodel = "net.py:net"\n[history]\nfolder = "history"\n')
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "nightly", str(file), "--into"]
    with (
        subprocess.Popen([*command, "victim"], cwd=tmp_path) as victim,
        subprocess.Popen([*command, "other"], cwd=tmp_path) as other,
    ):
        records = "victim/*/records-*.jsonl"
        wait_until(lambda: any(path.stat().st_size for path in tmp_path.glob(records)), "the victim has a record")
        assert victim.poll() is None
        victim.kill()
        victim.wait()
        assert nightly(file, "--into", "victim").returncode == 0
        assert other.wait(200) == 0
    both = [night for name in ("victim", "other") for night in nights(tmp_path / name)]
    first, second = (Counter((row.name, str(row.verdict)) for row in records_of(night)) for night in both)
    assert first == second
    assert set(first.values()) == {1}
    in_history = {run["run"]: run["records"] for run in History(tmp_path / "history").runs()}
    assert in_history == {night.name: sum(first.values()) for night in both}


PLUS = '[[suite]]\npaths = ["b", "a"]\nsuffixes = ["MI"]\nexpression = "itself or function"\n'
TEARDOWN = "def pytest_runtest_teardown(item):\n    if 'itself' in item.name:\n        raise RuntimeError('no')\n"


@pytest.mark.slow
def test_what_pytest_calls_failed_is_red_whatever_the_records_say(tmp_path: Path) -> None:
    """A function that has the name of a verified test, the teardown of one, and a file that skips itself."""
    file = write(tmp_path, f"[run]\njobs = 1\n{PLUS}")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "test_plus.py").rename(tmp_path / "a/test_plus.py")
    (tmp_path / "b/test_b.py").write_text("def test_plus_itself_MI():\n    assert False\n")
    (tmp_path / "b/test_c.py").write_text("import pytest\npytest.importorskip('gone')\ndef test_function_MI(): pass\n")
    (tmp_path / "a/conftest.py").write_text(TEARDOWN)
    report = report_of(file, 1)
    assert report["counts"] == {"verified": 1}
    assert sorted(problem.split(": ", 2)[2] for problem in report["problems"]) == [
        "a file skipped itself, with all of its tests: b/test_c.py: Skipped: could not import 'gone': No module named "
        "'gone'",
        "b/test_b.py::test_plus_itself_MI failed: assert False",
        "the teardown of a/test_plus.py::test_plus_itself_MI failed: RuntimeError: no",
    ]


def test_a_session_that_ends_at_once_or_chose_nothing_is_red(tmp_path: Path) -> None:
    """pytest's status is 0 in the one, and 5 in the other."""
    for name, conftest, message in (
        ("a", "import os\nos._exit(0)\n", "pytest ended with status 0 before its end"),
        ("b", "", "it chose no test ("),
    ):
        folder = tmp_path / name
        folder.mkdir()
        file = write(folder, '[[suite]]\npaths = ["test_plus.py"]\nsuffixes = ["MI"]\nexpression = "no_such_test"\n')
        (folder / "conftest.py").write_text(conftest)
        report = report_of(file, 1)
        (problem,) = report["problems"]
        assert message in problem
        assert report["whole"] is False


def test_a_suite_that_pytest_cannot_run_does_not_hide_what_else_is_red(tmp_path: Path) -> None:
    """A broken conftest.py; and options of ours in addopts."""
    for name in "abc":
        (tmp_path / name).mkdir()
    suites = "".join(f'[[suite]]\npaths = ["{name}"]\nsuffixes = ["MI"]\n' for name in "abc")
    file = write(tmp_path, f"[run]\njobs = 1\n{suites}")
    (tmp_path / "a/conftest.py").write_text("import gone\n")
    (tmp_path / "b/pytest.ini").write_text("[pytest]\naddopts = --compile-only\n")
    for name in "abc":
        (tmp_path / f"{name}/test_{name}.py").write_text("def test_a_MI():\n    assert False\n")
    problems = [problem.partition(" (")[0] for problem in report_of(file, 1)["problems"]]
    assert problems == [
        "suite 1: virtual: pytest cannot run it: E ModuleNotFoundError: No module named 'gone'",
        "suite 2: virtual: pytest cannot run it: ERROR: the nightly does not ask for --compile-only: take it out of "
        "addopts and PYTEST_ADDOPTS, or say it in the nightly's file",
        "suite 3: virtual: c/test_c.py::test_a_MI failed: assert False",
    ]
