"""A real failed run, and its bundle, for the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from unittest.mock import ANY

import pytest

from ethos_hil.base.testing.once import Once
from ethos_hil.harness.bundle.archive import unpack
from ethos_hil.harness.testing.command import Ended, run_command

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


@pytest.fixture(scope="session")
def failed(once: Once) -> FailedRun:
    """Run it once for all workers."""

    def make(folder: Path) -> None:
        ran = run_command("run", MONITOR, "--as-upstream", "--runs", "runs", cwd=folder)
        assert ran.status == 1, ran
        (run,) = (folder / "runs").iterdir()
        assert run_command("bundle", run, "-o", "failure.zip", cwd=folder) == Ended(0, "failure.zip\n", ANY)

    folder = once("failed", make)
    (run,) = (folder / "runs").iterdir()
    manifest, files = unpack(folder / "failure.zip")
    facts = {name: value for name, value in manifest.items() if name not in ("kind", "schema_version", "members")}
    return FailedRun(run, (folder / "failure.zip").read_bytes(), files, facts)
