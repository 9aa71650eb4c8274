"""A board as a target: what its record says, a card that loads it, and a line that is too fast, damaged or given up."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.api import run
from ethos_hil.harness.boards import bring_up_probe as probes
from ethos_hil.harness.boards import monitor
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.loadable import ResidentFirmware
from ethos_hil.harness.boards.monitor import MonitorLink
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.harness.image.pack import Image
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.suites.lab.bench.campaign.programs import CampaignRun
from ethos_hil.suites.lab.bench.tests.conftest import MakeBench, run_elf

pytestmark = pytest.mark.product

NPU = "ethos-u55-128"
FIRST, FAST = 115200, 921600
TOO_FAST = 3_000_000
"""The UART divides 25 MHz by 16 at least. A board file with it would be refused; a cable may be the reason as well."""
SECONDS = 30.0
TRIES = 4
"""On a busy computer the board is late, and a link takes an answer that is a second late for a speed that does not
work: then the upload goes on at the first speed, which is right too."""
DATA = random.Random(19).randbytes(40_000)
RUBBISH = bytes([0x55]) * 3000
"""More than the monitor takes before it thinks that it has the wrong speed: firmware/monitor/monitor.cc."""


@pytest.mark.slow
def test_a_record_says_how_the_program_came_onto_the_board(make_bench: MakeBench, tmp_path: Path) -> None:
    bench = make_bench()
    file = bench.write_board_file(tmp_path)
    twice, example = module_of(lambda x: x + x), torch.rand(1, 4, 8, 8)
    first, second = (run(twice, example, npu=NPU, target=f"board:{file}").record for _ in range(2))
    assert first.verdict is second.verdict is Verdict.VERIFIED
    assert first.board is not None
    assert second.board is not None
    assert (first.board.loaded, second.board.loaded) == (True, False), "the firmware stays"
    assert first.board.load_seconds > 0 == second.board.load_seconds
    for board in (first.board, second.board):
        assert (board.server, board.link, board.baud) == ("running", bench.serial, 921600)
        assert board.upload_seconds > 0.95 * 10 * board.upload_bytes / board.baud > 0, "the line is as fast as it says"
        assert board.cpu_hz == find_board(str(file)).soc.cpu_hz
        assert board.simulated
    assert {metric.provenance for metric in first.metrics if metric.name == "npu_cycles"} == {"modelled"}
    assert Record.from_json(first.to_json()) == first


@pytest.mark.slow
def test_the_firmware_of_a_card_stays_and_takes_programs(
    make_bench: MakeBench, make_image: Callable[..., Image], tmp_path: Path
) -> None:
    bench = make_bench()
    path = bench.write_board_file(tmp_path, "card", loading='server = "none"\n')
    target = BoardTarget(find_board(str(path)), NPU)
    run_elf(bench, make_image("add").elf)
    target.load(make_image("add"))
    with pytest.raises(EthosHilError, match="nothing answers on"):
        target.run(timeout=30)
    run_elf(bench, make_image("add", stays=True).elf)
    for _ in range(2):
        target.load(make_image("add"))
        outcome = target.run(timeout=30)
        assert outcome.board is not None
        assert (outcome.board.server, outcome.board.loaded, len(outcome.runs)) == ("none", False, 1)


# --- Uploads that a host gives up, or the line damages: what the next one finds, without a probe


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
        assert link.upload(bytes(6_000), Deadline(60)).damaged > 0
        bench.tell("heal")
        assert link.upload(bytes(2_000), Deadline(60)).damaged == 0


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


def test_a_real_boards_cycles_are_measured(tmp_path: Path) -> None:
    """Of the same file without `simulated`; nothing is run."""
    path = tmp_path / "mine.toml"
    path.write_text('extends = "mps3-an547"\nnpus = ["ethos-u55-128"]\n[link]\nurl = "/dev/ttyACM0"\n')
    target = BoardTarget(find_board(str(path)), NPU)
    assert (target.cycle_provenance, target.cpu_unit) == ("measured", "cycles")


@pytest.mark.slow
def test_a_speed_that_does_not_work_is_told(
    make_bench: MakeBench, make_image: Callable[..., Image], tmp_path: Path
) -> None:
    bench = make_bench()
    board = find_board(str(bench.write_board_file(tmp_path)))
    hasty = dataclasses.replace(board, link=dataclasses.replace(board.link, fastest_baud=TOO_FAST))
    target = BoardTarget(hasty, NPU)
    target.load(make_image())
    outcome = target.run(timeout=60.0)
    assert outcome.runs
    assert outcome.board is not None
    assert outcome.board.baud == board.link.baud
    (note,) = outcome.notes
    assert note.startswith("the two ends do not understand each other at 3,000,000 baud, so the line had 115,200")
