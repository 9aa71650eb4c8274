"""What the plugin records of tests that end in each way, and when it refuses to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.suites.lab.prove.upstream.records import read

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


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("catalogue") / "run"
    ended = run_pytest(folder, True, "--collect-only", "--upstream-catalogue", str(folder / "catalogue.json"))
    assert ended.returncode == 0, ended.stdout
    return list(json.loads((folder / "catalogue.json").read_text())["items"])


def listed(folder: Path, items: list[str]) -> tuple[str, ...]:
    """Return the options that choose the tests, and say where their results go."""
    (folder / "items.json").write_text(json.dumps(items))
    return ("--upstream-items", str(folder / "items.json"), "--upstream-results", str(folder / "r.jsonl"))


def test_outcomes_calls_and_messages_are_recorded(items: list[str], tmp_path: Path, recorded: Recorded) -> None:
    ended = run_pytest(tmp_path / "run", True, *listed(tmp_path, items))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    results = {name.removeprefix("test_subject.py::test_u55_"): one for name, one in read(tmp_path / "r.jsonl").items()}
    recorded.check(
        {
            name: [result.outcome, result.message, *((call.fvp, call.status) for call in result.calls)]
            for name, result in sorted(results.items())
        }
    )


@pytest.mark.parametrize(
    ("patches", "fvp", "more", "message"),
    [
        ("off", True, "", "ETHOS_HIL_PATCHES=off: without patches"),  # no one would see what reaches a device
        ("on", True, "utils._run_cmd = device\n", "patch 'starts of FVPs' was made for executorch"),
        # It would be an expected failure whatever the device does: no one would notice.
        ("on", False, "", "does not find its FVP"),
    ],
    ids=["no patches", "another function of upstream's", "no FVP"],
)
def test_a_run_that_would_not_see_a_device_is_stopped(
    patches: str, fvp: bool, more: str, message: str, items: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if patches == "off":
        monkeypatch.setenv("ETHOS_HIL_PATCHES", "off")
    ended = run_pytest(tmp_path / "run", fvp, *listed(tmp_path, items), more=more)
    assert ended.returncode not in (0, 1)
    assert message in ended.stdout + ended.stderr
    assert not (tmp_path / "r.jsonl").exists()
