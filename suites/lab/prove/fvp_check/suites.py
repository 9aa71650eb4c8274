"""Tests on an FVP: a few operators of the suites, and the contract of targets. Each in a pytest session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.process import dies_with

_ROOT = Path(__file__).resolve().parents[4]
_PATIENCE = 1800.0
"""Seconds that a session may take."""
_CONTRACT = """from ethos_hil.harness.targets.contract import TargetContract


class TestFvp(TargetContract):
    target, npu = "{target}", "{npu}"
"""
FEW = "suites/ops/test_elementwise.py"


@dataclass(frozen=True)
class SessionEnding:
    """The end of a pytest session.

    Attributes:
        name: what was tested.
        counts: tests by how they ended: "passed", "failed", "skipped".
        log: what pytest printed.
        records: the records of its tests, a line each, or b"".
    """

    name: str
    counts: dict[str, int]
    log: bytes
    records: bytes = b""

    @property
    def well(self) -> bool:
        """Whether tests ran and none failed."""
        return self.counts.get("passed", 0) > 0 and not self.counts.get("failed", 0)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items()) or "no test ran"
        return f"{self.name}: {counts}"


def operators(target: str, npu: str, *, few: bool) -> SessionEnding:
    """Run the first case of each file of operators, or of one file. Every bit is compared."""
    suffix = f"{npu.split('-')[1].upper()}_BI"
    with tempfile.TemporaryDirectory(prefix="ethos-hil-fvp-check-") as folder:
        runs = Path(folder) / "runs"
        where = (FEW if few else "suites/ops", "--suffix", suffix, "--one-in", "1000", "--runs", str(runs))
        ending = _session("operators of the suites", Path(folder), *where, "--target", target, "--npu", npu)
        records = b"".join(path.read_bytes() for path in sorted(runs.rglob("*.jsonl")))
    return SessionEnding(ending.name, ending.counts, ending.log, records)


def contract(target: str, npu: str) -> SessionEnding:
    """Run the tests that every target passes."""
    with tempfile.TemporaryDirectory(prefix="ethos-hil-fvp-check-") as folder:
        file = Path(folder) / "test_fvp.py"
        file.write_text(_CONTRACT.format(target=target, npu=npu))
        return _session("contract of targets", Path(folder), str(file), "--rootdir", folder)


def _session(name: str, folder: Path, *arguments: str) -> SessionEnding:
    report = folder / "report.xml"
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", str(report), *arguments)
    try:
        done = subprocess.run(
            command,
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
            check=False,
            preexec_fn=dies_with(os.getpid()),
        )
        log = done.stdout
    except subprocess.TimeoutExpired as error:
        log = (error.stdout or b"") + f"\nended after {_PATIENCE:g} s".encode()
    return SessionEnding(name, _counts(report), log)


def _counts(report: Path) -> dict[str, int]:
    if not report.is_file():
        return {"failed": 1}
    words = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    ends = [[words[child.tag] for child in test if child.tag in words] for test in ET.parse(report).iter("testcase")]
    return dict(Counter(end[0] if end else "passed" for end in ends))
