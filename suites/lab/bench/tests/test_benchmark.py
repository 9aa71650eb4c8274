"""`ethos-hil bench` on a board that is given as a file: every point is run, shown, and found again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.suites.lab.bench.tests.conftest import MakeBench

pytestmark = pytest.mark.product


@pytest.mark.slow
def test_a_boards_points_are_shown_and_not_made_again(make_bench: MakeBench, tmp_path: Path) -> None:
    file = make_bench().write_board_file(tmp_path, "mine")
    options = ("--case", "linear_128_to_8", "--npu", "ethos-u55-128", "--memory-mode", "Shared_Sram", "--jobs", "1")
    command = [str(Path(sys.executable).with_name("ethos-hil")), "bench", f"--target=board:{file}", *options]
    done = run(command, tmp_path)
    assert "1 point" in done.stdout, done
    assert "verified" in done.stdout
    (name,) = (folder.name for folder in (tmp_path / "results/runs").iterdir())
    again = run([*command, "--resume", name], tmp_path)
    assert "1 point" in again.stdout
    records = list((tmp_path / "results/runs" / name).glob("records-*.jsonl"))
    assert sum(len(path.read_text().splitlines()) for path in records) == 1


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done
