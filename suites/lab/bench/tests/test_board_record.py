"""A run on a board is in its record: how the program came there, and what the line lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.api import run
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.suites.lab.bench.tests.conftest import MakeBench

pytestmark = pytest.mark.product


class Twice(nn.Module):
    """The smallest model with something for the NPU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


@pytest.mark.slow
def test_a_record_says_how_the_program_came_onto_the_board(make_bench: MakeBench, tmp_path: Path) -> None:
    bench = make_bench()
    file = bench.write_board_file(tmp_path)
    first, second = (recorded(file) for _ in range(2))
    assert first.verdict is second.verdict is Verdict.VERIFIED
    assert first.board is not None
    assert second.board is not None
    assert (first.board.loaded, second.board.loaded) == (True, False), "the firmware stays"
    assert first.board.load_seconds > 0 == second.board.load_seconds
    for board in (first.board, second.board):
        assert (board.server, board.link, board.baud) == ("running", bench.serial, 921600)
        assert board.upload_bytes > 0 < board.upload_seconds
        assert board.cpu_hz == find_board(str(file)).soc.cpu_hz
        assert board.simulated
    assert {metric.provenance for metric in first.metrics if metric.name == "npu_cycles"} == {"modelled"}
    assert Record.from_json(first.to_json()) == first


def recorded(file: Path) -> Record:
    return run(Twice(), torch.rand(1, 4, 8, 8), npu="ethos-u55-128", target=f"board:{file}").record


def test_a_real_boards_cycles_are_measured(tmp_path: Path) -> None:
    """Of the same file without `simulated`; nothing is run."""
    path = tmp_path / "mine.toml"
    path.write_text('extends = "mps3-an547"\nnpus = ["ethos-u55-128"]\n[link]\nurl = "/dev/ttyACM0"\n')
    target = BoardTarget(find_board(str(path)), "ethos-u55-128")
    assert (target.cycle_provenance, target.cpu_unit) == ("measured", "cycles")
