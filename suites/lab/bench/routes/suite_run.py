"""The operator suite on boards, and how it ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.process import dies_with

_ROOT = Path(__file__).resolve().parents[4]
_COUNT = re.compile(r"(\d+) ([a-z][a-z-]*)")
_LAST = re.compile(r" in \d+\.\d+s")
"""In the last line that pytest says."""


@dataclass(frozen=True)
class SuiteRun:
    """How a suite ended.

    Attributes:
        counts: tests by how they ended, as pytest's last line has them: "verified", "failed" and so on.
        seconds: wall time.
        status: pytest's exit status.
        output: what it said.
    """

    counts: dict[str, int]
    seconds: float
    status: int
    output: str


def run_suite(boards: Sequence[Path], npu: str, folder: Path, one_in: int = 1) -> SuiteRun:
    """Run the operators of Ethos-U55's profile, one worker for each board.

    Args:
        boards: the files of boards of a kind.
        npu: their NPU.
        folder: for the records.
        one_in: the part of the tests that is run.
    """
    target = "board:" + "+".join(map(str, boards))
    command = [sys.executable, "-m", "pytest", "suites/ops", "-q", "--suffix", "U55_BI", "--npu", npu]
    command += ["--target", target, "--runs", str(folder / "runs"), "-p", "no:cacheprovider"]
    command += ["-n", str(len(boards)), "--dist", "worksteal"] if len(boards) > 1 else []
    command += ["--one-in", str(one_in)] if one_in > 1 else []
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        preexec_fn=dies_with(os.getpid()),
    )
    return SuiteRun(counts_in(done.stdout), time.monotonic() - began, done.returncode, done.stdout)


def counts_in(output: str) -> dict[str, int]:
    """Return how many tests ended how, from what pytest said."""
    for line in reversed(output.splitlines()):
        if _LAST.search(line):
            return {word: int(count) for count, word in _COUNT.findall(_LAST.split(line)[0])}
    return {}
