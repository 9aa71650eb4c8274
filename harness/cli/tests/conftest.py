"""What tests of the commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.harness.testing.command import Run, run_command


@pytest.fixture
def command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `ethos-hil` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return run_command
