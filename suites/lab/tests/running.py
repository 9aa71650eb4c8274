"""How tests run parts of the laboratory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ethos_hil.base.errors import EthosHilError
from ethos_hil.suites.lab.__main__ import main


def part_command(*arguments: object) -> list[str]:
    """Return the command line of a part."""
    return [sys.executable, "-m", "ethos_hil.suites.lab", *map(str, arguments)]


def run_part(*arguments: object, seconds: float = 250) -> subprocess.CompletedProcess[str]:
    """Run a part in a process of its own."""
    return subprocess.run(part_command(*arguments), capture_output=True, text=True, timeout=seconds, check=False)


def assert_refused(arguments: list[str], message: str) -> None:
    """A part ends with status 2, and an error that says `message`."""
    with pytest.raises(EthosHilError) as caught:
        main(arguments)
    assert caught.value.exit_status == 2
    assert message in f"{caught.value.message} ({caught.value.hint})"
