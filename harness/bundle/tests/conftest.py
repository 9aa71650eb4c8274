"""A real failed run, and its bundle, for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ethos_hil.harness.bundle.archive import unpack

ROOT = Path(__file__).resolve().parents[3]
MONITOR = f"{ROOT}/docs/examples/monitor.py:monitor"
"""With Vela's own code its answer is wrong: docs/defects has the defect, vela-reduce-min."""


@dataclass(frozen=True)
class FailedRun:
    """A run that failed: its folder, its bundle's bytes, and the bundle's members."""

    folder: Path
    data: bytes
    files: dict[str, bytes]
    facts: dict[str, object]


def command(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `ethos-hil` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "ethos_hil.harness.cli.main", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="session")
def failed(tmp_path_factory: pytest.TempPathFactory) -> FailedRun:
    folder = tmp_path_factory.mktemp("failed")
    ran = command("run", MONITOR, "--as-upstream", "--runs", "runs", cwd=folder)
    assert ran.returncode == 1, ran.stderr
    (run,) = (folder / "runs").iterdir()
    result = command("bundle", run, "-o", "failure.zip", cwd=folder)
    assert (result.returncode, result.stdout) == (0, "failure.zip\n"), result.stderr
    manifest, files = unpack(folder / "failure.zip")
    facts = {name: value for name, value in manifest.items() if name not in ("kind", "schema_version", "members")}
    return FailedRun(run, (folder / "failure.zip").read_bytes(), files, facts)
