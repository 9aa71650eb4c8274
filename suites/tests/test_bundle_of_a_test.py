"""A test of a suite becomes a bundle, which shows the same without the suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.suites.tests.session import SAMPLE, session

TEST = "test_plus_itself_U55_BI"


def ethos_hil(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "ethos_hil.harness.cli.main", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_a_test_of_a_suite_runs_again_without_the_suite(tmp_path: Path) -> None:
    result = session(tmp_path, SAMPLE, "-k", "itself_U55 or itself_BI")
    assert result.verdicts[TEST] == "verified", result.output
    (run,) = (tmp_path / "runs").iterdir()
    process = ethos_hil(tmp_path, "bundle", str(run), TEST, "--json")
    assert process.returncode == 0, process.stderr
    written = json.loads(process.stdout)
    assert written["name"].endswith(f"sample.py::{TEST}")
    assert (written["verdict"], written["again"]) == ("verified", "verified")
    shown = ethos_hil(
        *(tmp_path, "run", "failure.zip", "--json", "r.json", "--runs", "other"),
        ETHOS_HIL_CACHE=str(tmp_path / "empty"),
    )
    assert shown.returncode == 0, shown.stderr
    assert "it ended as the run in failure.zip" in json.loads((tmp_path / "r.json").read_text())["notes"]
    host = ethos_hil(tmp_path, "bundle", str(run), TEST.replace("U55_BI", "BI"), "-o", "host.zip")
    assert host.returncode == 2
    assert "ran on tosa_reference_model" in host.stderr
    assert not (tmp_path / "host.zip").exists()
