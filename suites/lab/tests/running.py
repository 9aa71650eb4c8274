"""How tests run parts of the laboratory."""

from __future__ import annotations

import subprocess
import sys

COMMAND = (sys.executable, "-m", "ethos_hil.suites.lab")


def run_part(*arguments: object, seconds: float = 250) -> subprocess.CompletedProcess[str]:
    """Run a part in a process of its own."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=seconds, check=False
    )
