"""The machine with tiny guests: accesses reach the NPU, interrupts reach the CPU, unmodelled uses stop the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.socs.registry import SOCS, find_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.memory import BusError, GuestMemory, locate
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, CORSTONE_320
from ethos_hil.harness.virtual.tests.guests import machine, outcome, programs, words

Assemble = Callable[..., bytes]
GUESTS = dict(programs("guests.s"))


@pytest.mark.parametrize("name", GUESTS)
def test_accesses_reach_the_devices_or_stop_with_their_name_and_place(
    assemble: Assemble, recorded: Recorded, name: str
) -> None:
    (soc,), body = GUESTS[name]
    recorded.check(f"{body}\n-> {outcome(assemble(body, find_soc(soc)), find_soc(soc))}")


def job(soc: Soc, more: str = "") -> str:
    """Return a program that runs a job, sends how often its interrupt came, and does more."""
    return f"job {soc.npu_irq}\n send\n {more}park\n handle_job {soc.npu_registers.base}"


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_the_interrupt_comes_once_and_goes_when_cleared(assemble: Assemble, soc: Soc) -> None:
    elf = assemble(job(soc, "ldr r4, [r0, #4]\n lsls r4, r4, #16\n send\n"), soc)
    with machine(elf, soc=soc) as board:
        assert words(board, 2) == [1, 0x00200000]
        assert not board.device.irq


PROBED = {
    "corstone-300": (0x31000040, 0x11000100, 0x21000040, 0x70004000, 0x60004000),
    # Also across the border of the two blocks in which QEMU has the SRAM.
    "corstone-320": (0x31000040, 0x311FFF00, 0x213FF000, 0x70004000, 0x80004000),
}


class Probe(Engine):
    """Looks at the guest's memory instead of running a job, in both ways of reaching it."""

    def __init__(self, npu: Npu, memory: GuestMemory) -> None:
        super().__init__(npu, memory)
        self.npu = npu
        self.memory = memory
        self.seen: dict[int, tuple[bytes, bytes]] = {}

    def run(self, job: NpuJob) -> JobResult:
        written = bytes(range(256)) * 5
        memory = self.memory
        for address in PROBED[memory._soc.name]:
            place = memory.locate(address)
            before = memory.read(place, len(written))
            memory.write(place, written)
            assert memory.read(place, len(written)) == written
            # What the CPU sees there, over gdb, is what was written.
            data = memory._gdb.read(address, len(written), Deadline(5))
            self.seen[address] = (before, data)
        assert memory._blocks is not None
        assert None not in memory._blocks._hosts.values(), "/proc/<pid>/mem is expected to work here"
        empty = self.npu.run(self.npu.decode((0xFFFF0000).to_bytes(4, "little")), {})
        return JobResult(empty, 0xFFFF)


@pytest.mark.parametrize("soc", [*map(find_soc, PROBED)], ids=PROBED)
def test_the_cpu_sees_what_the_npu_wrote(assemble: Assemble, soc: Soc) -> None:
    with machine(assemble(job(soc), soc), engine=Probe, soc=soc) as board:
        assert words(board, 1) == [1]
        engine = board.engine
        assert isinstance(engine, Probe)
        assert len(engine.seen) == 5
        assert all(data == bytes(range(256)) * 5 for _, data in engine.seen.values())


@pytest.mark.parametrize(
    ("soc", "address"),
    [
        *((CORSTONE_300, at) for at in (0x0, 0x10000000, 0x30000000, 0x48102000, 0x31200000, 0xE0000000, 1 << 32)),
        *((CORSTONE_320, at) for at in (0x11000000, 0x12000000, 0x30000000, 0x31400000, 1 << 32)),
    ],
)
def test_the_npu_cannot_reach_addresses_without_ram(soc: Soc, address: int) -> None:
    with pytest.raises(BusError, match=f"0x{address:08x}"):
        locate(soc, address)


def test_ram_addresses_know_the_bytes_left() -> None:
    assert locate(CORSTONE_300, 0x311FFFF0).left == 16
    assert locate(CORSTONE_300, 0x70000000).offset == 0x10000000
    assert locate(CORSTONE_300, 0xDFFFFFFF).left == 1
    assert locate(CORSTONE_320, 0x311FFFF0).left == (2 << 20) + 16


def test_a_lockup_is_a_crash_with_qemus_message(assemble: Assemble) -> None:
    # A fault in the HardFault handler: QEMU gives up.
    text = outcome(assemble("ldr r1, =0xE000ED08\n ldr r2, =0x31000000\n str r2, [r1]\n udf #0\n park\n"))
    assert text.startswith("crashed: ")
    assert "ockup" in text
