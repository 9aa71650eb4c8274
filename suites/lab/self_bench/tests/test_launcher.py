"""What a launcher adds to a test is measured by a command, whose limit `make bench` shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ethos_hil.harness.fvp_stand_in.tests.jobs import load

ELF = Path(__file__).resolve().parents[4] / "build/firmware/corstone300/ethos-hil.elf"


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
