"""What tests of the commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.harness.testing.command import run_command

Call = Callable[..., tuple[int, str, str]]
"""Takes arguments; returns exit status, stdout and stderr."""


@pytest.fixture
def command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs `ethos-hil` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        ended = run_command(*arguments)
        return ended.status, ended.out, ended.err

    return call
