"""Uploads that a host gives up, or the line damages: what the next one finds, without a probe."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.boards import monitor
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.monitor import MonitorLink
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.suites.lab.bench.campaign.programs import CampaignRun
from ethos_hil.suites.lab.bench.tests.conftest import MakeBench

pytestmark = pytest.mark.product

FIRST, FAST = 115200, 921600
NPU = "ethos-u55-128"


def abandon(serial: str) -> None:
    """Start an upload at the fast speed, and go away."""
    with SerialLine(serial, FIRST) as line:
        link = MonitorLink(line)
        assert link.sync(Deadline(10)) is not None
        assert link.change_speed(FAST, Deadline(10))
        with pytest.raises(TimeoutError):
            link.upload(bytes(1_000_000), Deadline(3.0))
        time.sleep(1.0)  # what is on its way arrives at the speed that it was sent with


@pytest.mark.slow
def test_a_monitor_in_an_upload_that_was_given_up_is_found(
    make_bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench()
    board = BoardTarget(find_board(str(bench.write_board_file(tmp_path))), NPU)
    run = CampaignRun("add", (1,))
    board.load(run.image())
    assert run.difference(board.run(timeout=60)) is None
    abandon(bench.serial)
    packets = bench.status()["packets"]
    with SerialLine(bench.serial, FIRST) as line, monkeypatch.context() as patch:
        patch.setattr(monitor, "_NONSENSE", b"")
        assert MonitorLink(line).sync(Deadline(2.5)) is None
    with SerialLine(bench.serial, FIRST) as line:
        assert MonitorLink(line).sync(Deadline(10)) is not None
    assert bench.status()["packets"] == packets


def test_frames_that_the_line_damages_are_counted_for_their_own_upload(make_bench: MakeBench, tmp_path: Path) -> None:
    """The firmware counts since it started; a record says it of one upload."""
    bench = make_bench()
    board = BoardTarget(find_board(str(bench.write_board_file(tmp_path))), NPU)
    board.load(CampaignRun("add", (1,)).image())
    board.run(timeout=60)
    with SerialLine(bench.serial, FIRST) as line:
        link = MonitorLink(line)
        assert link.sync(Deadline(10)) is not None
        bench.tell("fault to-board.corrupt:2000")
        assert link.upload(bytes(20_000), Deadline(60)).damaged > 0
        bench.tell("heal")
        assert link.upload(bytes(2_000), Deadline(60)).damaged == 0
