"""How tests run parts of the laboratory."""

from __future__ import annotations

import subprocess
import sys


def part_command(*arguments: object) -> list[str]:
    """Return the command line of a part."""
    return [sys.executable, "-m", "ethos_hil.suites.lab", *map(str, arguments)]


def run_part(*arguments: object, seconds: float = 250) -> subprocess.CompletedProcess[str]:
    """Run a part in a process of its own."""
    return subprocess.run(part_command(*arguments), capture_output=True, text=True, timeout=seconds, check=False)
