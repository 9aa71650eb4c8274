"""What a process leaves is seen: processes of its own, and locks that are held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from ethos_hil.base.deadline import Deadline
from ethos_hil.suites.lab.bench.campaign.trial import MARK, is_held, still_marked

PARENT = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.DEVNULL)
"""


def test_a_process_that_is_left_is_seen(tmp_path: Path) -> None:
    mark = str(tmp_path)
    subprocess.run([sys.executable, "-c", PARENT], env={**os.environ, MARK: mark}, check=True)
    ((process, command),) = still_marked(mark, Deadline(0.1)).items()
    assert "time.sleep(60)" in command
    os.kill(process, signal.SIGKILL)
    assert still_marked(mark, Deadline(30)) == {}


def test_a_lock_that_is_held_is_seen(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock"):
        assert is_held(tmp_path / "lock")
    assert not is_held(tmp_path / "lock")
