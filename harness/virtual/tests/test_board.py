"""A reused board equals a new one, no matter what its last program did."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.run import find_firmware
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.board import BoardPool, QemuBoard, _contents, new_board
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.machine import Machine
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, qemu_processes
from ethos_hil.harness.virtual.tests.guests import words
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.harness.virtual.tests.qemu_version import qemu_major
from ethos_hil.harness.virtual.tests.state import state_of

Assemble = Callable[..., bytes]
U55 = EthosU.parse("ethos-u55-128")
SECONDS = 20.0

CLOCKS = {
    "timer0.cpu_clock_offset",
    "timer0.cpu_ticks_offset",
    "mps2-fpgaio0.clk100hz_tick_offset",
    "mps2-fpgaio0.clk1hz_tick_offset",
    "mps2-fpgaio0.pscntr_sync_ticks",
    "pl0310.tick_offset_vmstate",
    "lan91180.free_timer_start",
    "cmsdk-apb-watchdog0.timer.last_event",
    "cmsdk-apb-watchdog0.timer.next_event",
    "cmsdk-apb-watchdog0.timer.timer",
}
"""The time of QEMU at which the machine was reset, from where its counters start at zero; of pl031 the time of day."""

REGISTERS = (
    (0x59303000, 1024),  # UART0
    # The processor's own, secure and not: SysTick, interrupts (enabled, pending, target state, priorities), handlers.
    *((bank + at, words) for bank in (0xE000E000, 0xE002E000) for at, words in (
        (0x010, 3), (0x100, 16), (0x200, 16), (0x380, 16), (0x400, 120), (0xD18, 3),
    )),
)  # fmt: skip
"""Where there are registers, and how many words."""
RAMS = (
    (0x10010000, 0x70000), (0x11010000, 0x1F0000), (0x30000000, 0x70000), (0x31000000, 0x400000), (0x70000000, 0x10000),
    (0x9F000000, 0x10000),
)  # fmt: skip
"""Where there is RAM, and how many bytes; not those of the program itself."""
_PLACES = ((address, size // 4) for address, size in RAMS)
GARBAGE = (DATA / "garbage.s").read_text() + "".join(f".word {at}, {count}\n" for at, count in (*_PLACES, *REGISTERS))
GARBAGE += ".word 0\n"


class Begun(Exception):
    """The NPU was given a job."""


class Endless(Engine):
    """An NPU whose first job hands control back to the test."""

    def run(self, job: NpuJob) -> JobResult:
        raise Begun


def run_to_job(board: QemuBoard) -> QemuBoard | None:
    """Run a board's program until it starts the NPU; the board, if it is worth keeping."""
    machine = Machine(board, U55, Deadline(SECONDS), engine=Endless)
    try:
        while True:
            machine.output()
    except Begun:
        return machine.release()


def run_for_words(board: QemuBoard, count: int) -> tuple[list[int], QemuBoard | None]:
    """Return the words that a board's program sends, and the board if it is worth keeping."""
    machine = Machine(board, U55, Deadline(SECONDS))
    return words(machine, count), machine.release()


def all_of(board: QemuBoard, folder: Path) -> dict[str, bytes]:
    """Return all state of a machine that is about to start, and all of its RAM that is not zero, by name.

    Afterwards the machine can only be stopped.
    """
    board.start_image()
    ddr = board.qemu.ddr
    assert ddr is not None
    starts = (start for begin, end in board.qemu.ddr_used for start in range(begin, end, 4096))
    pages = {f"ddr 0x{start:x}": ddr[start : start + 4096] for start in starts}
    return state_of(board, folder) | {name: page for name, page in pages.items() if any(page)}


def different(contents: dict[str, bytes], other: dict[str, bytes]) -> set[str]:
    return {name for name in contents.keys() | other.keys() if contents.get(name) != other.get(name)}


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_after_garbage_everywhere_a_board_is_as_new(
    assemble: Assemble, pool: BoardPool, tmp_path: Path, soc: Soc
) -> None:
    image = find_firmware(soc.name)
    fresh = new_board(soc, image)
    expected = all_of(fresh, tmp_path)
    fresh.stop()

    garbage = assemble(GARBAGE, soc)
    board = run_to_job(pool.take(soc, garbage))
    assert board is not None
    board.load_image(image)
    assert different(expected, all_of(board, tmp_path)) <= CLOCKS
    board.stop()

    # The state was garbage before: without a reset, or without emptying the memories, the comparison fails.
    board = run_to_job(pool.take(soc, garbage))
    assert board is not None
    left = different(expected, all_of(board, tmp_path)) - CLOCKS
    board.stop()
    assert sum(" 0x" in name for name in left) >= sum(size for _, size in RAMS[:4]) // 1024
    for part in ("regs[4]", "vectors[100].pending", "vectors[100].prio", "faultmask", "rbar", "uart0", "zregs", "ddr"):
        assert any(part in name for name in left), part


# Programs at the same address that say which one they are.
def teller(number: int) -> str:
    return f"movs r4, #{number}\n" + "send\n park\n"


@pytest.mark.parametrize("address", [0x10000000, 0x11000000, 0x31000000, 0x70000000])
def test_code_of_the_last_image_is_not_executed_again(assemble: Assemble, pool: BoardPool, address: int) -> None:
    soc = dataclasses.replace(CORSTONE_300, boot=address)
    processes = set()
    for number in (1, 2, 1, 3):
        numbers, board = run_for_words(pool.take(soc, assemble(teller(number), soc)), 1)
        assert numbers == [number]
        assert board is not None
        processes.add(board.qemu.pid)
        pool.give(board)
    assert len(processes) == 1


def test_memory_emptied_past_qemu_would_be_noticed(
    assemble: Assemble, pool: BoardPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory emptied past QEMU holds the new code, but QEMU executes the old code."""
    soc = dataclasses.replace(CORSTONE_300, boot=0x70000000)
    numbers, board = run_for_words(pool.take(soc, assemble(teller(1), soc)), 1)
    assert board is not None
    monkeypatch.setattr(type(board.qtest), "fill", lambda *_: None)
    board.load_image(assemble(teller(2), soc))
    again, board = run_for_words(board, 1)
    assert (numbers, again) == ([1], [1])
    assert board is not None
    board.stop()


@pytest.mark.parametrize("known", [True, False])
def test_code_written_past_qemu_is_not_taken_for_known(assemble: Assemble, pool: BoardPool, known: bool) -> None:
    """An NPU may write code like this. It is in memory, while QEMU has a translation of the old code."""
    soc = dataclasses.replace(CORSTONE_300, boot=0x31000000)
    first, second = assemble(teller(1), soc), assemble(teller(2), soc)
    numbers, board = run_for_words(pool.take(soc, first), 1)
    assert (numbers, board is not None) == ([1], True)
    assert board is not None
    ((address, code),) = _contents(second).items()
    assert board.blocks.write(address, memoryview(code), Deadline(SECONDS))
    if known:  # QEMU knows what is there then, and keeps it
        board.blocks.forget_writes()
    board.load_image(second)
    again, board = run_for_words(board, 1)
    assert again == ([1] if known and qemu_major() < 10 else [2])  # QEMU 10.0 executes the new code in either case
    assert board is not None
    board.stop()


@pytest.mark.parametrize(
    ("device", "address"),
    [("the processor's vectors", 0x58021110), ("SPI", 0x59202000), ("guards", 0x50080120), ("Ethernet", 0x41400000)],
)
def test_a_board_whose_other_devices_were_used_is_not_kept(
    assemble: Assemble, pool: BoardPool, device: str, address: int
) -> None:
    """A reset does not restore these devices. Programs may use them all the same."""
    body = f"ldr r1, =0x{address:08x}\n movs r2, #0x80\n str r2, [r1]\n ldr r4, [r1]\n str r2, [r1, #4]\n"
    alone, _ = run_for_words(new_board(CORSTONE_300, assemble(body + "send\n park\n")), 1)
    numbers, board = run_for_words(pool.take(CORSTONE_300, assemble(body + "send\n park\n")), 1)
    assert (numbers, board) == (alone, None)
    assert qemu_processes(os.getpid()) == set()
