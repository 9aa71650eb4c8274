"""No value in any field of a .pt2 executes anything, or raises anything but a clear error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.lowering.model.tests.programs import save


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "every"),
    [pytest.param("buffers", 53, marks=pytest.mark.proof), ("branch", 23)],
)
def test_no_field_executes_anything(tmp_path: Path, name: str, every: int) -> None:
    path = save(name, tmp_path)
    command = [sys.executable, "-m", "ethos_hil.lowering.model.tests.hostile_fields", str(path), str(every)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 1, lines[:5]
    assert int(lines[0].split()[0]) > 1000
    assert not (tmp_path / "OWNED").exists()
