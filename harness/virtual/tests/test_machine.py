"""The machine with tiny guests: accesses reach the NPU, interrupts reach the CPU, unmodelled uses stop the run.

And the strict board's rules about the processor: programs that break one, each beside one that just does not. What
becomes of each program is recorded: that it keeps the rules, or which one it breaks, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.socs.registry import SOCS, find_soc
from ethos_hil.harness.socs.soc import Soc, Window
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.fittings import Adapters, Fittings
from ethos_hil.harness.virtual.memory import BusError, GuestMemory, locate
from ethos_hil.harness.virtual.mps3_an547 import UART0
from ethos_hil.harness.virtual.rules import Rule
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, CORSTONE_310, CORSTONE_320
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


# --- The strict board's rules. ---

TCM = (Rule.TCM_ECC, Rule.MEMORY_PATTERN)
PROGRAMS = dict(programs("rules.s"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_keeps_the_rules_or_is_told_which_it_breaks_and_where(
    assemble: Assemble, recorded: Recorded, name: str
) -> None:
    (soc, rules), body = PROGRAMS[name]
    elf = assemble(body, find_soc(soc))
    recorded.check(f"{body}\n-> {outcome(elf, find_soc(soc), rules=map(Rule, rules.split()))}")


def test_a_breach_comes_before_the_time_limit(assemble: Assemble) -> None:
    elf = assemble("ldr r1, =0x30000000\n ldr r1, [r1]\n park\n")
    assert outcome(elf, CORSTONE_300, rules=TCM, seconds=1.0).startswith("board-rule: rule tcm-ecc")


# --- Boards that differ in their devices: what a board lacks is an external abort, and its only UART is where it is.

OTHER_UART = Window(0x58203000, 0x1000, 0x48203000)
"""Where some sources have the UART of a Corstone-320."""
UARTS = {"UART 0": UART0, "the other UART": OTHER_UART}
PLACES = (0xFE0, 0xFE4, 0xFE8, 0xFEC, 0xFD0, 0xFF0, 0xFF4, 0xFF8, 0xFFC)
"""Registers that say what a UART is."""
SENT_BYTE = "movs r4, #0x41\n str r4, [r8]\n"


def load_of(uart: int, *addresses: int) -> str:
    """Return a program that sends the words at addresses, and of what is absent the address."""
    loads = "".join(f"ldr r1, ={address}\n ldr r4, [r1]\n send_there\n" for address in addresses)
    return f"set_up {uart}\n {loads} done\n handle_absent\n"


def fitted() -> Iterator[tuple[str, tuple[Soc, Fittings | None, tuple[Rule, ...], str]]]:
    """Return each program's name, the board, what is on it, the rules, and the body."""
    lacking = {
        CORSTONE_300: (0x58103000, 0x48103000),
        CORSTONE_310: (0x58103000,),
        # QEMU has a Corstone-300's NPU at the second one.
        CORSTONE_320: (0x50006000, 0x58102000, OTHER_UART.base, OTHER_UART.base - 0x10000000, OTHER_UART.base + 4),
    }
    for soc, addresses in lacking.items():
        for address in addresses:
            body = load_of(UART0.base, address)
            yield f"{soc.name} lacks 0x{address:x}", (soc, None, (Rule.ABSENT_ABORT,), body)
            if address != 0x58102000:
                yield f"a lenient {soc.name} has 0x{address:x}", (soc, None, (), body)
    for name, uart in UARTS.items():
        other = (OTHER_UART if uart is UART0 else UART0).base + 0xFE0
        for base in uart.bases:
            body = load_of(base, *(base + place for place in PLACES), other)
            yield f"{name} is found at 0x{base:x}", (CORSTONE_320, Fittings((uart,), Adapters.ABORT), (), body)
        slow = Fittings((uart,), full_polls=3)
        patient = f"set_up {uart.base}\n ldr r4, =0x44434241\n send_there\n done\n handle_absent\n"
        yield f"{name} is waited for", (CORSTONE_320, slow, (Rule.UART,), patient)
        # Every byte but the first is lost; STATE says full, and overrun.
        hasty = f"set_up {uart.base}\n {SENT_BYTE * 2} ldr r4, [r8, #4]\n send_there\n done\n handle_absent\n"
        for rules in ((), (Rule.UART,)):
            yield f"{name} is not waited for, rules {len(rules)}", (CORSTONE_320, slow, rules, hasty)
    setting = "movs r6, #{}\n str r6, [r8, #8]\n movs r6, #{}\n str r6, [r8, #0x10]\n"
    for control, divider in ((1, 16), (0, 16), (2, 16), (1, 15)):
        body = f"ldr r8, ={OTHER_UART.base}\n {setting.format(control, divider)} {SENT_BYTE * 2}"
        for rules in ((), (Rule.UART,)):
            name = f"control {control} and divider {divider}, rules {len(rules)}"
            yield name, (CORSTONE_320, Fittings((OTHER_UART,)), rules, f"{body}{setting.format(1, 16)} done\n")


FITTED = dict(fitted())


@pytest.mark.parametrize("name", FITTED)
def test_a_board_has_what_it_is_fitted_with(assemble: Assemble, recorded: Recorded, name: str) -> None:
    soc, fittings, rules, body = FITTED[name]
    recorded.check(outcome(assemble(body, soc), soc, fittings, rules))


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_memory_holds_noise_at_the_start(assemble: Assemble, soc: Soc) -> None:
    """All RAM of QEMU around the image and what follows the image in the DDR; the image itself is whole."""
    elf = assemble("park\n", soc)
    contents = []
    for _ in range(2):
        with machine(elf, soc, rules=[Rule.MEMORY_PATTERN]) as board:
            places = ((0x10040000, 256), (0x111FFF00, 256), (0x30000000, 256), (0x3007FF00, 256), (0x31000000, 256),
                      (0x313FFF00, 256), (0x60000000, 256), (0x70000000, 256), (0x703FFF00, 256))  # fmt: skip
            contents.append([board.read(*place) for place in places])
            assert board.read(0x70400000, 256) == bytes(256)
            assert board.read(soc.boot, 4) == bytes.fromhex("00000830")
    assert contents[0] == contents[1]
    assert all(len(set(data)) > 100 for data in contents[0])


@pytest.mark.parametrize(
    "soc", [SOCS[0], pytest.param(SOCS[1], marks=pytest.mark.proof), SOCS[2]], ids=lambda soc: soc.name
)
def test_exceptions_use_the_boot_memorys_vector_table_until_the_program_says_otherwise(
    assemble: Assemble, soc: Soc
) -> None:
    """A program that never writes VTOR. QEMU's machine starts with a Corstone-300's, whatever the system is."""
    elf = assemble("ldr r1, =0xE000ED08\n ldr r4, [r1]\n svc #0\n finish\n", soc)
    with machine(elf, soc, rules=[Rule.RESET_STATE], seconds=1.0) as board:
        with pytest.raises(TimeoutError):
            board.output()
        assert str(board.where()).startswith("unexpected at 0x")
    if soc is not CORSTONE_300:
        assert outcome(elf, soc).startswith("crashed: ")
