"""A monitor that went back to its first speed, because of rubbish on the line, is met there and brought back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.boards import bring_up_probe as probes
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.loadable import ResidentFirmware
from ethos_hil.harness.boards.monitor import MonitorLink
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.suites.lab.bench.tests.conftest import MakeBench

pytestmark = pytest.mark.product

SECONDS = 30.0
TRIES = 4
"""On a busy computer the board is late, and a link takes an answer that is a second late for a speed that does not
work: then the upload goes on at the first speed, which is right too."""
DATA = random.Random(19).randbytes(40_000)
RUBBISH = bytes([0x55]) * 3000
"""More than the monitor takes before it thinks that it has the wrong speed: firmware/monitor/monitor.cc."""


@pytest.mark.parametrize("when", ["before", "amid"])
def test_an_upload_goes_on_after_rubbish(when: str, make_bench: MakeBench, firmware: bytes, tmp_path: Path) -> None:
    bench = make_bench()
    board = find_board(str(bench.write_board_file(tmp_path)))
    resident = ResidentFirmware.of(firmware)
    assert any(_is_fast_again(bench.serial, board, resident, when) for _ in range(TRIES))


def _is_fast_again(serial: str, board: Board, resident: ResidentFirmware, when: str) -> bool:
    """Upload, with rubbish before it or amid it. Return whether the line then has the speed it had."""
    with SerialLine(serial, board.link.baud) as line:
        link = MonitorLink(line)
        probes.load_firmware(board, resident, lambda text: None, line.drop_input)
        assert link.sync(Deadline(SECONDS)) is not None
        if not link.change_speed(board.link.fastest_baud, Deadline(SECONDS)):
            return False
        counts: list[int] = []

        def progress(done: int, size: int) -> None:
            if when == "amid" and not counts:
                line.write(RUBBISH)
            counts.append(done)

        if when == "before":
            line.write(RUBBISH)
        uploaded = link.upload(DATA, Deadline(SECONDS), progress)
        assert (uploaded.size, counts[-1]) == (len(DATA), len(DATA))
        return line.baud == board.link.fastest_baud
