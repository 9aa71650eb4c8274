"""The command in the process of a test answers as in one of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.harness.testing.command import Ended, run_command


@pytest.mark.parametrize("line", ["runs --json", "run absent.py:net", "run net.py:net --npu", "--no-such-option"])
def test_it_ends_as_in_a_process_of_its_own(line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", *line.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    ended = run_command(*line.split(), cwd=tmp_path)
    usage = done.stderr.replace("python -m ethos_hil.harness.cli.main", "ethos-hil")
    assert ended.shown() == Ended(done.returncode, done.stdout, usage).shown(), "but for progress, which takes its time"
