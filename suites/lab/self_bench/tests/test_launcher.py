"""The time that a launcher adds to a test stays within its limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.harness.fvp_stand_in.tests.jobs import load
from ethos_hil.suites.lab.self_bench.launcher import LIMIT, measure

ELF = Path(__file__).resolve().parents[4] / "build/firmware/corstone300/ethos-hil.elf"


def test_a_run_stays_within_its_budget() -> None:
    recorded = load("convolutions", "corstone-300")
    outputs = [np.ascontiguousarray(output).tobytes() for output in recorded.outputs]
    for _ in range(3):  # other tests run at the same time, and only ever add to it
        budget = measure(ELF, recorded.pte, recorded.inputs, outputs)
        if LIMIT.met_by(budget.over):
            return
    pytest.fail(budget.table())


def test_it_is_a_command(tmp_path: Path) -> None:
    recorded = load("add", "corstone-300")
    (tmp_path / "program.pte").write_bytes(recorded.pte)
    files = [tmp_path / "program.pte"]
    for number, data in enumerate(recorded.inputs):
        files.append(tmp_path / f"i{number}.bin")
        files[-1].write_bytes(data)
    command = [sys.executable, "-m", "ethos_hil.suites.lab.self_bench.launcher", str(ELF), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.count(" s\n") == 8
    assert "beyond QEMU's boot, program and NPU model" in done.stdout
