"""A test of a suite becomes a bundle, which shows the same without the suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.harness.testing.command import assert_one_clear_line, run_command
from ethos_hil.suites.tests.session import SAMPLE, session

TEST = "test_plus_itself_U55_BI"


@pytest.mark.slow
def test_a_test_of_a_suite_runs_again_without_the_suite(tmp_path: Path) -> None:
    result = session(tmp_path, SAMPLE, "-k", "itself_U55 or itself_BI")
    assert result.verdicts[TEST] == "verified", result.output
    (run,) = (tmp_path / "runs").iterdir()
    bundled = run_command("bundle", run, TEST, cwd=tmp_path)
    assert bundled.status == 0, bundled.err
    empty = {"ETHOS_HIL_CACHE": str(tmp_path / "empty")}
    shown = run_command("run", "failure.zip", "--json", "r.json", "--runs", "other", cwd=tmp_path, environment=empty)
    assert shown.status == 0, shown.err
    assert "it ended as the run in failure.zip" in json.loads((tmp_path / "r.json").read_text())["notes"]
    host = run_command("bundle", run, TEST.replace("U55_BI", "BI"), "-o", "host.zip", cwd=tmp_path)
    assert_one_clear_line(host, 2, "ran on tosa_reference_model")
    assert not (tmp_path / "host.zip").exists()
