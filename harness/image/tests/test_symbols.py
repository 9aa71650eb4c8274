"""Addresses become functions and lines, and never an error."""

from __future__ import annotations

import io
import struct
import subprocess
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.symbols import Symbols, _demangle
from ethos_hil.harness.testing.tiny_elf import tiny_elf, with_sections

BARE = tiny_elf(0, b"", stack=0, entry=0, empty=(64, 4))
SOURCE = """\
.syntax unified
.thumb
.global _ZN3npu3runEv
.type _ZN3npu3runEv, %function
_ZN3npu3runEv:
    nop
    b .
.size _ZN3npu3runEv, . - _ZN3npu3runEv
    nop
.global sizeless
.type sizeless, %function
sizeless:
    nop
    bx lr
"""


@pytest.mark.parametrize("dwarf", ["4", "5"])
def test_every_address_of_a_source(tmp_path: Path, dwarf: str, recorded: Recorded) -> None:
    """One byte before it, its four functions' bytes, what is between them, and one behind it."""
    (tmp_path / "two.s").write_text(SOURCE)
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m55", f"-gdwarf-{dwarf}", "-nostdlib", "-Wl,-Ttext=0x400"]
    subprocess.run([*command, "-Wl,-e,sizeless", "two.s", "-o", "two.elf"], cwd=tmp_path, check=True)
    elf = (tmp_path / "two.elf").read_bytes()
    described = [Symbols(elf).describe(address) for address in range(0x3FE, 0x40D)]
    recorded.check("\n".join(described))
    subprocess.run(["arm-none-eabi-objcopy", "-R.debug_aranges", "two.elf"], cwd=tmp_path, check=True)
    symbols = Symbols((tmp_path / "two.elf").read_bytes())
    assert [symbols.describe(address) for address in range(0x3FE, 0x40D)] == described, "without the table of units"


def test_the_firmwares_functions_and_lines_agree_with_binutils(tmp_path: Path) -> None:
    firmware = find_firmware()
    path = tmp_path / "firmware.elf"
    path.write_bytes(firmware)
    table = ELFFile(io.BytesIO(firmware)).get_section_by_name(".symtab")
    functions = (s for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC" and s["st_size"])
    addresses = sorted({s["st_value"] & ~1 for s in functions})[::9]
    command = ["arm-none-eabi-addr2line", "-e", str(path), *map(hex, addresses)]
    expected = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    symbols = Symbols(firmware)
    compared = 0
    for address, line in zip(addresses, expected, strict=True):
        place = Path(line.split(" ")[0]).name
        if not place.startswith("?") and not place.endswith((":0", ":?")):
            assert symbols.line(address) == place
            compared += 1
        assert symbols.function(address) is not None
    assert compared > 10


NAMES = {
    "main": "main",
    "_ZN9ethos_hil3npu12on_interruptEv": "ethos_hil::npu::on_interrupt",
    "_ZN9ethos_hil12_GLOBAL__N_18send_oneEv": "ethos_hil::(anonymous)::send_one",
    "_ZNK9ethos_hil7Package6run_idEv": "ethos_hil::Package::run_id",
    "_Z4plusv": "plus",
    "_ZN9ethos_hil7ProgramC2ENS_5BytesE": "ethos_hil::Program::Program",
    "_ZN3fooIiE3barEv": "_ZN3fooIiE3barEv",
    "_Z": "_Z",
    "_ZN99short": "_ZN99short",
}


def test_names_are_readable() -> None:
    assert {symbol: _demangle(symbol) for symbol in NAMES} == NAMES


def test_an_elf_without_lines_or_symbols_gives_the_bare_address() -> None:
    for elf in (b"", b"hello", BARE, BARE[:60], with_sections(BARE, {".debug_info": b"x" * 99}, {"data": 4})):
        assert Symbols(elf).describe(5) == "0x00000004"


def test_a_damaged_elf_costs_the_name_only() -> None:
    firmware = find_firmware()
    for cut in (64, 1000, len(firmware) // 2):
        assert "0x10000200" in Symbols(firmware[:cut]).describe(0x10000200)
    damaged = bytearray(firmware)
    for position in range(len(damaged) // 2, len(damaged), 97):
        damaged[position] ^= 0xFF
    assert "0x10000200" in Symbols(bytes(damaged)).describe(0x10000200)


def changed(elf: bytes, section: int, words: dict[int, int]) -> bytes:
    """Return an ELF with other words, by their numbers, in the header of a section."""
    data, begin = bytearray(elf), struct.unpack_from("<I", elf, 32)[0] + 40 * section
    for number, word in words.items():
        struct.pack_into("<I", data, begin + 4 * number, word)
    return bytes(data)


def test_many_symbols_take_seconds_at_most() -> None:
    """Each is a byte of the first section."""
    elf = changed(with_sections(BARE, {"first": bytes(1 << 20)}, {}), 2, {4: len(BARE), 5: 1 << 20, 9: 1})
    before = time.monotonic()
    assert Symbols(elf).describe(0x10000000) == "0x10000000"
    assert time.monotonic() - before < 10


def test_four_billion_sections_are_none() -> None:
    elf = bytearray(changed(with_sections(BARE, {}, {}), 0, {5: 0xFFFFFFFF}))
    struct.pack_into("<3H", elf, 46, 0, 0, 0)
    assert Symbols(bytes(elf)).describe(0x10000000) == "0x10000000"


def test_a_section_that_unpacks_to_gigabytes_is_left_alone() -> None:
    """100 MB here; the file has 100 kB."""
    size = 100 << 20
    packed = struct.pack("<3I", 1, size, 1) + zlib.compress(bytes(size))
    sections = {".debug_info": packed, ".debug_abbrev": b"\0", ".debug_line": b""}
    elf = changed(with_sections(BARE, sections, {}), 1, {2: 0x800})
    tracemalloc.start()
    assert Symbols(elf).describe(0x10000000) == "0x10000000"
    assert tracemalloc.get_traced_memory()[1] < size // 2
    tracemalloc.stop()
