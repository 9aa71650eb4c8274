"""The machine with tiny guests: accesses reach the NPU, interrupts reach the CPU, unmodelled uses stop the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.board import new_board
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.machine import Machine
from ethos_hil.harness.virtual.memory import BusError, GuestMemory, locate
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, CORSTONE_320

Assemble = Callable[..., bytes]
U55 = EthosU.parse("ethos-u55-128")
U85 = EthosU.parse("ethos-u85-256")

# Sends r4 as four bytes, least significant first, and goes on. Changes r5 to r7.
SEND = """
    ldr r5, =0x59303000
    movs r6, #16
    str r6, [r5, #16]
    movs r6, #1
    str r6, [r5, #8]
    movs r7, #4
1:  ldr r6, [r5, #4]
    lsls r6, r6, #31
    bne 1b
    str r4, [r5]
    lsrs r4, r4, #8
    subs r7, #1
    bne 1b
"""
PARK = """
park:
    b park
"""


def machine(
    elf: bytes,
    seconds: float = 10.0,
    engine: Callable[[Npu, GuestMemory], Engine] = Engine,
    soc: Soc = CORSTONE_300,
) -> Machine:
    return Machine(new_board(soc, elf), U85 if soc is CORSTONE_320 else U55, Deadline(seconds), engine=engine)


def words(board: Machine, count: int) -> list[int]:
    data = b""
    while len(data) < 4 * count:
        data += board.output()
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def stops(board: Machine) -> TargetError:
    with board, pytest.raises(TargetError) as caught:
        board.output()
    return caught.value


def test_loads_and_stores_reach_the_registers(assemble: Assemble) -> None:
    body = f"""
    ldr r4, [r0, #0x28]
    {SEND}
    ldr r1, =0x12345670
    str r1, [r0, #0x80]
    ldr r2, =0x48102080
    ldr r4, [r2]
    {SEND}
    ldrb r4, [r0, #0x82]
    {SEND}
    ldrh r4, [r0, #0x28]
    {SEND}
    ldr r1, =0x31001000
    movs r2, #0
    strd r1, r2, [r0, #0x88]
    ldrd r3, r4, [r0, #0x84]
    {SEND}
    {PARK}"""
    with machine(assemble(body)) as board:
        assert words(board, 5) == [U55.size.config_word, 0x12345670, 0x34, 0x1807, 0x31001000]
        assert board.accesses == 7


def test_the_guests_place_is_function_and_line(assemble: Assemble) -> None:
    with machine(assemble(PARK), seconds=0.3) as board:
        with pytest.raises(TimeoutError):
            board.output()
        where = board.where()
    assert where is not None
    assert where.startswith("reset at 0x")
    assert "guest.s:" in where


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("ldr r1, [r0, #0x148]", "offset 0x148 is read"),
        ("str r0, [r0, #0x28]", "read-only NPU register CONFIG"),
        ("strb r0, [r0, #0x20]", "1 of the 4 bytes of the register at 0x58102020"),
        ("ldm r0, {r1, r2}", "r0, {r1, r2} accesses a register"),
        ("ldr r1, [r0, #2]", "unaligned"),
        (".arch_extension mve\n vldrw.u32 q0, [r0]", "vector or coprocessor"),
    ],
)
def test_what_is_not_modelled_stops_with_its_name_and_place(assemble: Assemble, body: str, named: str) -> None:
    enable_vectors = "ldr r2, =0xE000ED88\n mov r3, #0xF00000\n str r3, [r2]\n dsb\n isb\n"
    error = stops(machine(assemble(enable_vectors + body + PARK)))
    assert error.kind == "unsupported"
    assert named in error.message
    assert "reset at 0x" in error.message
    assert "guest.s:" in error.message


# A job: command stream at 0x70001000 (a lone STOP), run with the interrupt enabled; its handler counts in r8.
def job(soc: Soc) -> str:
    return f"""
    ldr r1, =0xE000ED08      @ vectors into the DTCM, ours for the NPU's interrupt
    ldr r2, =0x30000000
    ldr r3, =handler
    str r3, [r2, #4 * (16 + {soc.npu_irq})]
    str r2, [r1]
    ldr r1, =0xE000E100 + {soc.npu_irq // 32 * 4}      @ NVIC_ISER
    ldr r2, =1 << {soc.npu_irq % 32}
    str r2, [r1]
    mov r8, #0
    ldr r1, =0xFFFF0000
    ldr r2, =0x70001000
    str r1, [r2]
    str r2, [r0, #0x10]
    movs r1, #4
    str r1, [r0, #0x20]
    movs r1, #1
    str r1, [r0, #8]
    nop
    mov r4, r8
"""


def handler(soc: Soc) -> str:
    return f"""
    .ltorg
    .thumb_func
    .type handler, %function
handler:
    ldr r0, ={soc.npu_registers.base}      @ v8.1-M clears the caller-saved registers
    add r8, r8, #1
    movs r1, #2
    str r1, [r0, #8]
    dsb
    bx lr
    .ltorg
"""


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_the_interrupt_comes_once_and_goes_when_cleared(assemble: Assemble, soc: Soc) -> None:
    body = job(soc) + SEND + "ldr r4, [r0, #4]\n lsls r4, r4, #16\n" + SEND + PARK + handler(soc)
    with machine(assemble(body, soc), soc=soc) as board:
        assert words(board, 2) == [1, 0x00200000]
        assert not board.device.irq


def test_a_command_stream_outside_of_ram_is_a_bus_fault(assemble: Assemble) -> None:
    body = "ldr r2, =0x0FFFFFF0\n str r2, [r0, #0x10]\n movs r1, #4\n str r1, [r0, #0x20]\n movs r1, #1\n"
    body += "str r1, [r0, #8]\n ldr r4, [r0, #4]\n" + SEND + PARK
    with machine(assemble(body)) as board:
        assert words(board, 1) == [0b110]
        assert board.device.fault is not None
        assert "no RAM at 0x0ffffff0" in board.device.fault.message


class Probe(Engine):
    """Looks at the guest's memory instead of running a job, in both ways of reaching it."""

    addresses: tuple[int, ...] = (0x31000040, 0x11000100, 0x21000040, 0x70004000, 0x60004000)

    def __init__(self, npu: Npu, memory: GuestMemory) -> None:
        super().__init__(npu, memory)
        self.npu = npu
        self.memory = memory
        self.seen: dict[int, tuple[bytes, bytes]] = {}

    def run(self, job: NpuJob) -> JobResult:
        written = bytes(range(256)) * 5
        memory = self.memory
        for address in self.addresses:
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


class Probe320(Probe):
    """The same, also across the border of the two blocks in which QEMU has the SRAM."""

    addresses = (0x31000040, 0x311FFF00, 0x213FF000, 0x70004000, 0x80004000)


@pytest.mark.parametrize(("soc", "probe"), [(CORSTONE_300, Probe), (CORSTONE_320, Probe320)])
def test_the_cpu_sees_what_the_npu_wrote(assemble: Assemble, soc: Soc, probe: type[Probe]) -> None:
    with machine(assemble(job(soc) + SEND + PARK + handler(soc), soc), engine=probe, soc=soc) as board:
        assert words(board, 1) == [1]
        engine = board.engine
        assert isinstance(engine, Probe)
        assert len(engine.seen) == 5
        assert all(data == bytes(range(256)) * 5 for _, data in engine.seen.values())


@pytest.mark.parametrize(("offset", "access"), [(0x24, "ldr"), (0x24, "str")])
def test_an_unmodelled_uart_register_stops_with_its_offset(assemble: Assemble, offset: int, access: str) -> None:
    body = f"ldr r1, =0x58203000\n {access} r2, [r1, #{offset}]\n" + PARK
    error = stops(machine(assemble(body, CORSTONE_320), soc=CORSTONE_320))
    assert (error.kind, f"UART register at offset 0x{offset:x}" in error.message) == ("unsupported", True)


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
    body = "ldr r1, =0xE000ED08\n ldr r2, =0x31000000\n str r2, [r1]\n udf #0\n" + PARK
    error = stops(machine(assemble(body)))
    assert error.kind == "crashed"
    assert "ockup" in error.message
