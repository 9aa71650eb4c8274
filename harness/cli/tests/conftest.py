"""What tests of the commands share."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ethos_hil.harness.cli import main

Call = Callable[..., tuple[int, str, str]]
"""Takes arguments; returns exit status, stdout and stderr."""


@pytest.fixture
def command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Iterator[Call]:
    """Runs `ethos-hil` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ethos-hil", *arguments])
        with pytest.raises(SystemExit) as caught:
            main.main()
        captured = capfdbinary.readouterr()
        status = caught.value.code
        assert isinstance(status, int)
        return status, captured.out.decode(), captured.err.decode()

    yield call
    signal.signal(signal.SIGTERM, before)
