"""`ethos-hil` in a process of its own, where some modules are absent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_PROGRAM = """\
import sys
from fnmatch import fnmatchcase

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(fnmatchcase(name, pattern) for pattern in ABSENT):
            raise ModuleNotFoundError(f"{name} is absent here")

ABSENT = sys.argv.pop(1).split()
sys.meta_path.insert(0, Absent())
try:
    import torch
except ModuleNotFoundError:
    pass
else:
    sys.exit("torch can be imported")
from ethos_hil.harness.cli.main import main
main()
"""


def run_without(
    modules: Iterable[str], *arguments: object, cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run `ethos-hil` without modules of these patterns, of which torch is one, and with more variables."""
    command = [sys.executable, "-P", "-c", _PROGRAM, " ".join(sorted(modules)), *map(str, arguments)]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=200)
