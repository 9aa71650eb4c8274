"""What a debugger does to a bench board through the simulated debug port: halt, registers, memory, resets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil.suites.lab.bench.probes.core_debug import (
    AIRCR,
    C_DEBUGEN,
    C_HALT,
    C_STEP,
    DCRDR,
    DCRSR,
    DEBUG_KEY,
    DEMCR,
    DFSR,
    DFSR_VCATCH,
    DHCSR,
    REGWNR,
    RESET_KEY,
    S_HALT,
    S_RESET_ST,
    SYSRESETREQ,
    VC_CORERESET,
)
from ethos_hil.suites.lab.bench.probes.debug_bus import DebugBus
from ethos_hil.suites.lab.bench.probes.debug_port import ABORT, SELECT, DebugPort, StickyError
from ethos_hil.suites.lab.bench.probes.mem_ap import CSW, DRW, TAR
from ethos_hil.suites.lab.bench.probes.probed_board import ProbedBoard

RAM, CPUID, NPU_QREAD = 0x30000000, 0xE000ED00, 0x58102018
LOOP = 0x10000040
"""Where an empty board waits for an interrupt."""
SP, PC = 13, 15
NOPS = bytes.fromhex("00bf00bf00bf00bf00bffee7")
INCREMENT = 1 << 4


@pytest.fixture(scope="module")
def bench() -> Iterator[BenchBoard]:
    """A board, which goes round in circles."""
    with BenchBoard() as board:
        yield board


class Debugger:
    """A debugger's accesses by the debug port."""

    def __init__(self, bench: BenchBoard) -> None:
        host, _, number = bench.gdb.rpartition(":")
        self.board = ProbedBoard(host, int(number))
        self.port = DebugPort(DebugBus(self.board))
        self.port.write(SELECT, 0)

    def read(self, address: int, size: int = 4) -> int:
        """Read so many bytes, in the lane of their address."""
        self._aim(address, size)
        return self.port.read_ap(DRW)

    def write(self, address: int, value: int, size: int = 4) -> None:
        """Write so many bytes, in the lane of their address."""
        self._aim(address, size)
        self.port.write_ap(DRW, value)

    def control(self, bits: int) -> None:
        """Write DHCSR with its key."""
        self.write(DHCSR, DEBUG_KEY << 16 | bits)

    def register(self, number: int) -> int:
        """Read a register of the halted processor."""
        self.write(DCRSR, number)
        return self.read(DCRDR)

    def set_register(self, number: int, value: int) -> None:
        """Write a register of the halted processor."""
        self.write(DCRDR, value)
        self.write(DCRSR, REGWNR | number)

    def restart(self) -> None:
        """Reset the board, and halt it before its first instruction. QEMU's processor may have been asleep."""
        self.control(C_DEBUGEN)
        self.write(DEMCR, VC_CORERESET)
        self.write(AIRCR, RESET_KEY << 16 | SYSRESETREQ)
        self.write(DEMCR, 0)

    def _aim(self, address: int, size: int) -> None:
        self.port.write_ap(CSW, INCREMENT | size >> 1)
        self.port.write_ap(TAR, address)


@pytest.fixture
def debugger(bench: BenchBoard) -> Iterator[Debugger]:
    """A debugger, which leaves the board running."""
    debugger = Debugger(bench)
    yield debugger
    debugger.port.write(ABORT, 0x1E)
    debugger.restart()
    debugger.control(0)
    debugger.port.leave()


@pytest.mark.slow
def test_it_halts_reads_and_writes_registers_and_lets_go(bench: BenchBoard, debugger: Debugger) -> None:
    assert not debugger.read(DHCSR) & S_HALT
    debugger.control(C_DEBUGEN | C_HALT)
    assert debugger.read(DHCSR) & S_HALT
    assert debugger.register(PC) in (LOOP, LOOP + 2)
    debugger.set_register(3, 0x12345678)
    assert debugger.register(3) == 0x12345678
    assert not bench.status()["running"]
    debugger.control(C_DEBUGEN)
    assert not debugger.read(DHCSR) & S_HALT
    assert bench.status()["running"]


@pytest.mark.slow
def test_a_step_executes_one_instruction(debugger: Debugger) -> None:
    debugger.restart()
    for at in range(0, len(NOPS), 4):
        debugger.write(RAM + at, int.from_bytes(NOPS[at : at + 4], "little"))
    debugger.set_register(PC, RAM)
    debugger.control(C_DEBUGEN | C_STEP)
    assert debugger.read(DHCSR) & S_HALT
    assert debugger.register(PC) == RAM + 2


@pytest.mark.slow
def test_a_reset_with_vector_catch_leaves_it_halted_and_one_without_lets_it_run(
    bench: BenchBoard, debugger: Debugger
) -> None:
    resets = bench.status()["resets"]
    debugger.control(C_DEBUGEN | C_HALT)
    debugger.read(DHCSR)
    debugger.write(DEMCR, VC_CORERESET)
    debugger.control(C_DEBUGEN)
    debugger.write(AIRCR, SYSRESETREQ)  # without the key it is nothing
    assert bench.status()["resets"] == resets
    debugger.write(AIRCR, RESET_KEY << 16 | SYSRESETREQ)
    assert bench.status()["resets"] == resets + 1
    status = debugger.read(DHCSR)
    assert status & S_HALT
    assert status & S_RESET_ST
    assert not debugger.read(DHCSR) & S_RESET_ST  # it is told once
    assert debugger.read(DFSR) & DFSR_VCATCH
    assert (debugger.register(PC), debugger.register(SP)) == (LOOP, 0x30001000)
    debugger.write(DEMCR, 0)
    debugger.control(C_DEBUGEN)
    debugger.write(AIRCR, RESET_KEY << 16 | SYSRESETREQ)
    status = debugger.read(DHCSR)
    assert not status & S_HALT
    assert status & S_RESET_ST
    assert bench.status()["resets"] == resets + 2


@pytest.mark.slow
def test_memory_is_reached_in_all_sizes_and_while_the_processor_runs(bench: BenchBoard, debugger: Debugger) -> None:
    debugger.write(RAM + 0x100, 0x44332211)
    assert debugger.read(RAM + 0x100) == 0x44332211
    debugger.write(RAM + 0x102, 0xAA << 16, 1)
    debugger.write(RAM + 0x100, 0xBBCC, 2)
    assert debugger.read(RAM + 0x100) == 0x44AABBCC
    assert debugger.read(RAM + 0x103, 1) == 0x44 << 24
    assert debugger.read(RAM + 0x102, 2) == 0x44AA << 16
    assert bench.status()["running"]


@pytest.mark.slow
def test_addresses_count_up_within_a_kibibyte(debugger: Debugger) -> None:
    debugger.control(C_DEBUGEN | C_HALT)
    debugger.write(RAM + 0x400, 1)
    debugger.write(RAM + 0x7FC, 2)
    debugger.port.write_ap(DRW, 3)
    assert debugger.read(RAM + 0x400) == 3
    debugger.write(RAM + 0x7F8, 4)
    assert debugger.read(RAM + 0x7F8) == 4
    assert [debugger.port.read_ap(DRW), debugger.port.read_ap(DRW)] == [2, 3]


@pytest.mark.slow
def test_what_was_read_ahead_is_forgotten_when_the_processor_has_run(debugger: Debugger) -> None:
    debugger.restart()
    for at, word in enumerate((0x0101F102, 0xE7FE6401)):  # add r1, r2, #1; str r1, [r0, #64]; b .
        debugger.write(RAM + 4 * at, word)
    debugger.write(RAM + 64, 0)
    assert debugger.read(RAM) == 0x0101F102  # and what follows, ahead
    for number, value in ((0, RAM), (2, 41), (PC, RAM)):
        debugger.set_register(number, value)
    debugger.control(C_DEBUGEN)
    deadline = Deadline(10)
    while debugger.read(RAM + 64) == 0 and not deadline.passed:
        pass
    debugger.control(C_DEBUGEN | C_HALT)
    assert debugger.read(RAM + 64) == 42


@pytest.mark.slow
def test_an_access_that_the_board_refuses_sets_the_flag(debugger: Debugger) -> None:
    with pytest.raises(StickyError):
        debugger.write(NPU_QREAD, 1, 1)  # the NPU's registers take words
    with pytest.raises(StickyError, match="an earlier access failed"):
        debugger.read(CPUID)
    debugger.port.write(ABORT, 0x1E)
    assert debugger.read(CPUID) >> 24 == 0x41  # Arm


@pytest.mark.slow
def test_a_halted_processor_stays_so_without_its_debugger(bench: BenchBoard, debugger: Debugger) -> None:
    debugger.control(C_DEBUGEN | C_HALT)
    debugger.port.leave()
    assert not bench.status()["running"]
    debugger.control(C_DEBUGEN)
    debugger.port.leave()
    assert bench.status()["running"]


@pytest.mark.slow
def test_a_board_without_power_is_gone_and_comes_back(bench: BenchBoard, debugger: Debugger) -> None:
    debugger.control(C_DEBUGEN | C_HALT)
    bench.tell("power off")
    with pytest.raises(StickyError, match="the board is gone"):
        debugger.read(RAM)
    bench.tell("power on")
    debugger.port.write(ABORT, 0x1E)
    status = debugger.read(DHCSR)
    assert status & S_RESET_ST
    assert not status & (S_HALT | C_DEBUGEN)
