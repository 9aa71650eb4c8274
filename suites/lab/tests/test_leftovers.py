"""What a killed process leaves is seen: processes of its own, and locks that are held."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from ethos_hil.base.deadline import Deadline
from ethos_hil.suites.lab.leftovers import MarkedProcess, is_held, marked, still_marked

PARENT = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("started", flush=True)
sys.stdin.read() if len(sys.argv) > 1 else None
"""


def started(tmp_path: Path, *arguments: str) -> MarkedProcess:
    process = MarkedProcess([sys.executable, "-c", PARENT, *arguments], str(tmp_path), tmp_path / "log", cwd=tmp_path)
    deadline = Deadline(30)
    while "started" not in (tmp_path / "log").read_text() and not deadline.passed:
        time.sleep(0.01)
    return process


def test_a_process_that_is_left_is_seen_and_is_killed_with_the_others(tmp_path: Path) -> None:
    process = started(tmp_path)
    process.end(30)
    (command,) = still_marked(process.mark, Deadline(0.1)).values()
    assert "time.sleep(60)" in command
    process.kill(everything=True)
    assert still_marked(process.mark, Deadline(30)) == {}


def test_another_status_and_no_end_are_errors_with_what_was_printed(tmp_path: Path) -> None:
    failing = MarkedProcess([sys.executable, "-c", "raise SystemExit('why')"], "it", tmp_path / "log", cwd=tmp_path)
    with pytest.raises(RuntimeError, match="it ended with status 1:\nwhy"):
        failing.end(30)
    endless = MarkedProcess(["sleep", "60"], f"{tmp_path}/endless", tmp_path / "log", cwd=tmp_path)
    with pytest.raises(RuntimeError, match=r"endless did not end within 0\.1 s"):
        endless.end(0.1)
    assert not endless.running
    assert marked(endless.mark) == {}


def test_a_lock_that_is_held_is_seen(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock"):
        assert is_held(tmp_path / "lock")
    assert not is_held(tmp_path / "lock")
