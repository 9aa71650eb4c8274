"""Intercepted loads and stores do exactly what the CPU would have done.

The oracle is QEMU: its Cortex-M55 executes each instruction on plain RAM, and this code carries it out on a copy.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.virtual.intercepted_access import UnsupportedAccess, decode
from ethos_hil.harness.virtual.qemu import Qemu
from ethos_hil.harness.virtual.qemu_control import PC, XPSR, Gdb
from ethos_hil.harness.virtual.tests.programs import DATA

RAM = 0x30001000
RAM_BYTES = 0x440
SP, LR = 13, 14


def instructions(name: str) -> list[str]:
    """Return the instructions of a file, one a line."""
    return [line for line in (DATA / name).read_text().splitlines() if not line.startswith("@")]


FORMS, REFUSED = instructions("accesses.s"), instructions("refused.s")


class Ram:
    """The emulated side's memory."""

    def __init__(self, content: bytes) -> None:
        self.content = bytearray(content)

    def load(self, address: int, size: int) -> int:
        return int.from_bytes(self.content[address - RAM : address - RAM + size], "little")

    def store(self, address: int, size: int, value: int) -> None:
        self.content[address - RAM : address - RAM + size] = value.to_bytes(size, "little")


@dataclass
class Cpu:
    """QEMU's Cortex-M55, executing single instructions of one program."""

    gdb: Gdb
    addresses: dict[str, int]

    def prepare(self, label: str) -> tuple[list[int], bytes]:
        """Give registers and RAM distinct contents, and set the program counter to a label."""
        registers = [0x81929000 + 0x01010101 * number for number in range(17)]
        registers[1] = registers[8] = registers[12] = RAM + 0x104
        registers[2] = 8
        registers[SP] = RAM + 0x10
        registers[PC] = self.addresses[label]
        registers[XPSR] = 0x01000000
        content = bytes((i * 7 + 3) & 0xFF ^ 0x80 for i in range(RAM_BYTES))
        deadline = Deadline(10)
        self.gdb.write_registers(registers, deadline)
        self.gdb.write(RAM, content, deadline)
        return self.gdb.read_registers(deadline), content

    def step(self) -> tuple[list[int], bytes]:
        deadline = Deadline(10)
        self.gdb.step(deadline)
        return self.gdb.read_registers(deadline), self.gdb.read(RAM, RAM_BYTES, deadline)

    def code(self, address: int) -> bytes:
        return self.gdb.read(address, 4, Deadline(10))

    def check(self, before: list[int], content: bytes) -> list[int]:
        """Execute the instruction at the program counter on both sides. Return the registers after it."""
        ram = Ram(content)
        after = decode(self.code(before[PC])).perform(before, ram)
        cpu_after, cpu_content = self.step()
        assert [hex(value) for value in after] == [hex(value) for value in cpu_after]
        assert bytes(ram.content) == cpu_content
        return after


@pytest.fixture(scope="module")
def cpu(assemble: Callable[[str], bytes]) -> Iterator[Cpu]:
    slots = {f"form{i}": form for i, form in enumerate(FORMS)}
    slots |= {f"refused{i}": form for i, form in enumerate(REFUSED)}
    slots["one"] = "it ne\n ldrne r3, [r1]\n nop"
    slots["four"] = "itttt ne\n ldrne r3, [r1]\n ldrne.w r4, [r1, #4]!\n strne r4, [r1, #8]\n strne r4, [r1], #4\n nop"
    slots["else"] = "itete eq\n moveq r3, r2\n ldrne r3, [r1]\n moveq r4, r2\n ldrhne r4, [r1, #2]\n nop"
    body = "\n".join(f".balign 4\n.global {label}\n{label}:\n {code}\n nop" for label, code in slots.items())
    elf = assemble(".arch_extension fp\n.arch_extension mve.fp\n" + body)
    table = ELFFile(io.BytesIO(elf)).get_section_by_name(".symtab")
    addresses = {symbol.name: symbol["st_value"] & ~1 for symbol in table.iter_symbols()}
    qemu = Qemu(elf)
    try:
        gdb = Gdb(qemu.gdb)
        gdb.handshake(Deadline(20))
        yield Cpu(gdb, addresses)
    finally:
        qemu.stop()


@pytest.mark.parametrize("form", FORMS)
def test_form_equals_the_cpu(cpu: Cpu, form: str) -> None:
    before, content = cpu.prepare(f"form{FORMS.index(form)}")
    after = cpu.check(before, content)
    assert after != before


@pytest.mark.parametrize("block", ["one", "four", "else"])
def test_it_blocks_equal_the_cpu(cpu: Cpu, block: str) -> None:
    cpu.prepare(block)
    registers, content = cpu.step()  # the IT instruction itself
    checked = 0
    while registers[XPSR] & 0x0600FC00:
        if cpu.code(registers[PC])[1] & 0xF8 == 0x46 & 0xF8 and block == "else":  # the moves, which are not taken
            registers, content = cpu.step()
            continue
        cpu.check(registers, content)
        registers = cpu.gdb.read_registers(Deadline(10))
        content = cpu.gdb.read(RAM, RAM_BYTES, Deadline(10))
        checked += 1
    assert checked == {"one": 1, "four": 4, "else": 2}[block]


def test_everything_else_is_refused(recorded: Recorded, cpu: Cpu) -> None:
    addresses = {form: cpu.addresses[f"refused{number}"] for number, form in enumerate(REFUSED)}
    recorded.check_refusals(addresses, lambda form: decode(cpu.code(addresses[form])), UnsupportedAccess)


def test_a_wrong_emulation_would_be_seen(cpu: Cpu) -> None:
    """Tests the comparison itself: two neighbouring forms have different effects."""
    before, content = cpu.prepare("form1")
    ram = Ram(content)
    wrong = decode(cpu.code(cpu.addresses["form0"])).perform(before, ram)
    right, _ = cpu.step()
    assert wrong != right
