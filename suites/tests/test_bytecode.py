"""A case whose code is not what its sources say fails: its digests would vouch for a program that no one wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.suites.tests.session import session

CASES = """
from ethos_hil.suites.declare.case import Operator, case, f32
from factor_of_stale_bytecode import FACTOR

operator = Operator("stale", aten=("mul.Tensor",), cases=(case("one", lambda x: x * FACTOR, f32(1, 4)),))
"""
WRITES = {"PYTHONDONTWRITEBYTECODE": ""}


def write(path: Path, text: str) -> Path:
    """Write a file whose time is always the same, as in an archive."""
    path.write_text(text)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


def test_pytest_checks_the_digest_of_what_it_rewrote(tmp_path: Path) -> None:
    """So what it keeps of a test module is never older than the module, and we need not look at it."""
    path = write(tmp_path / "test_rewritten.py", "def test():\n    assert 1 == 1\n")
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path), str(path)]
    variables = {**os.environ, **WRITES}
    assert subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True).returncode == 0
    assert list((tmp_path / "__pycache__").glob("*-pytest-*.pyc")), "pytest keeps it elsewhere"
    write(path, "def test():\n    assert 1 == 2\n")
    assert subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True).returncode == 1


@pytest.mark.slow
@pytest.mark.proof
def test_a_case_of_old_bytecode_fails_and_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write(tmp_path / "test_stale.py", CASES)
    factor = write(tmp_path / "factor_of_stale_bytecode.py", "FACTOR = 2.0\n")
    variables = {**WRITES, "ETHOS_HIL_CACHE": str(tmp_path / "cache")}

    def verdicts() -> list[str]:
        result = session(tmp_path, ".", "--suffix", "MI", root=tmp_path, environment=variables)
        return list(result.verdicts.values())

    assert verdicts() == ["verified"]
    write(factor, "FACTOR = 0.5\n")
    result = session(tmp_path, ".", "--suffix", "MI", root=tmp_path, environment=variables)
    ((_, test),) = result.tests.items()
    assert test.verdict == "failed"
    assert "factor_of_stale_bytecode.py says now" in test.text
    for bytecode in (tmp_path / "__pycache__").iterdir():
        bytecode.unlink()
    assert verdicts() == ["verified"]
