"""What the plugin records of tests that end in each way, and when it refuses to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.suites.lab.prove.upstream.records import TestResult, read

SUBJECT = Path(__file__).with_name("subject.py")
FVP = "FVP_Corstone_SSE-300_Ethos-U55"


def run_pytest(folder: Path, fvp: bool, *options: str, more: str = "") -> subprocess.CompletedProcess[str]:
    """pytest with the plugin on the subject, with or without an FVP on PATH; `more` is the subject's last line."""
    (folder / "bin").mkdir(parents=True)
    (folder / "test_subject.py").write_text(SUBJECT.read_text() + more)
    if fvp:
        (folder / "bin" / FVP).write_text("#!/bin/sh\nexit 0\n")
        (folder / "bin" / FVP).chmod(0o755)
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider"]
    command += ["-p", "ethos_hil.suites.lab.prove.upstream.plugin", *options, str(folder)]
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def catalogue(folder: Path) -> list[str]:
    path = folder / "catalogue.json"
    ended = run_pytest(folder, True, "--collect-only", "--upstream-catalogue", str(path))
    assert ended.returncode == 0, ended.stdout
    return list(json.loads(path.read_text())["items"])


def recorded(folder: Path, items: list[str], *options: str) -> dict[str, TestResult]:
    folder.mkdir()
    (folder / "items.json").write_text(json.dumps(items))
    options = ("--upstream-items", str(folder / "items.json"), "--upstream-results", str(folder / "r.jsonl"), *options)
    ended = run_pytest(folder / "run", True, *options)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    return {
        name.removeprefix("test_subject.py::test_u55_"): result for name, result in read(folder / "r.jsonl").items()
    }


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return catalogue(tmp_path_factory.mktemp("catalogue") / "run")


@pytest.fixture(scope="module")
def results(items: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, TestResult]:
    return recorded(tmp_path_factory.mktemp("with") / "out", items)


def test_only_tests_of_an_npu_are_listed(items: list[str]) -> None:
    assert len(items) == 11
    assert not [item for item in items if "of_no_npu" in item]


def test_outcomes_are_pytests(results: dict[str, TestResult]) -> None:
    assert {name: result.outcome for name, result in results.items()} == {
        "reaches": "passed",
        "reaches_twice_and_fails": "failed",
        "passes_before": "passed",
        "fails_before": "failed",
        "skipped": "skipped",
        "skips_itself": "skipped",
        "expected_to_fail": "xfailed",
        "expected_to_fail_otherwise": "failed",
        "expected_to_fail_but_passes_strict": "failed",
        "expected_to_fail_but_passes": "xpassed",
        "error_in_setup": "error",
    }


def test_calls_and_message_are_recorded(results: dict[str, TestResult]) -> None:
    assert [len(results[name].calls) for name in ("reaches", "reaches_twice_and_fails", "fails_before")] == [1, 2, 0]
    assert results["skipped"].calls == results["passes_before"].calls == ()
    assert (results["reaches"].calls[0].fvp, results["reaches"].calls[0].status) == (FVP, 0)
    assert results["reaches_twice_and_fails"].message == "ValueError: wrong"
    assert results["expected_to_fail_but_passes"].message == "because"
    assert results["error_in_setup"].message == "ValueError: wrong"


def test_workers_record_the_same(items: list[str], results: dict[str, TestResult], tmp_path: Path) -> None:
    spread = recorded(tmp_path / "out", items, "-n", "2", "--dist", "worksteal")
    assert {name: result.outcome for name, result in spread.items()} == {
        name: result.outcome for name, result in results.items()
    }


def test_without_patches_nothing_is_run(items: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No one would see what reaches a device."""
    monkeypatch.setenv("ETHOS_HIL_PATCHES", "off")
    (tmp_path / "items.json").write_text(json.dumps(items))
    options = ("--upstream-items", str(tmp_path / "items.json"), "--upstream-results", str(tmp_path / "r.jsonl"))
    ended = run_pytest(tmp_path / "run", True, *options)
    assert ended.returncode == 4
    assert "ETHOS_HIL_PATCHES=off: without patches" in ended.stderr
    assert not (tmp_path / "r.jsonl").exists()


def test_a_function_of_upstreams_that_has_changed_stops_the_run(items: list[str], tmp_path: Path) -> None:
    """Who knows what the plugin would see of a device."""
    (tmp_path / "items.json").write_text(json.dumps(items))
    options = ("--upstream-items", str(tmp_path / "items.json"), "--upstream-results", str(tmp_path / "r.jsonl"))
    ended = run_pytest(tmp_path / "run", True, *options, more="utils._run_cmd = device\n")
    assert ended.returncode == 4
    assert "patch 'starts of FVPs' was made for executorch" in ended.stderr
    assert not (tmp_path / "r.jsonl").exists()


def test_a_test_whose_fvp_is_not_found_stops_the_run(items: list[str], tmp_path: Path) -> None:
    """It would be an expected failure whatever the device does: no one would notice."""
    (tmp_path / "items.json").write_text(json.dumps(items))
    options = ("--upstream-items", str(tmp_path / "items.json"), "--upstream-results", str(tmp_path / "r.jsonl"))
    ended = run_pytest(tmp_path / "run", False, *options)
    assert ended.returncode not in (0, 1)
    assert "does not find its FVP" in ended.stdout + ended.stderr
    assert not (tmp_path / "r.jsonl").exists()
