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

from ethos_hil.harness.image.symbols import Symbols


def test_the_firmwares_functions_and_lines_agree_with_binutils(firmware: bytes, tmp_path: Path) -> None:
    path = tmp_path / "firmware.elf"
    path.write_bytes(firmware)
    table = ELFFile(io.BytesIO(firmware)).get_section_by_name(".symtab")
    addresses = [
        s["st_value"] & ~1 for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC" and s["st_size"]
    ]
    addresses = sorted(set(addresses))[::9]
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


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("main", "main"),
        ("_ZN9ethos_hil3npu12on_interruptEv", "ethos_hil::npu::on_interrupt"),
        ("_ZN9ethos_hil12_GLOBAL__N_18send_oneEv", "ethos_hil::(anonymous)::send_one"),
        ("_ZNK9ethos_hil7Package6run_idEv", "ethos_hil::Package::run_id"),
        ("_Z4plusv", "plus"),
        ("_ZN9ethos_hil7ProgramC2ENS_5BytesE", "ethos_hil::Program::Program"),
        ("_ZN3fooIiE3barEv", "_ZN3fooIiE3barEv"),
        ("_Z", "_Z"),
        ("_ZN99short", "_ZN99short"),
    ],
)
def test_names_are_readable(symbol: str, name: str) -> None:
    from ethos_hil.harness.image.symbols import _demangle

    assert _demangle(symbol) == name


def test_addresses_outside_and_invalid_elfs_give_the_bare_address() -> None:
    assert Symbols(b"no ELF").describe(0x10000000) == "0x10000000"
    assert Symbols(b"").function(0) is None


def test_a_damaged_elf_costs_the_name_only(firmware: bytes) -> None:
    for cut in (64, 1000, len(firmware) // 2):
        assert "0x10000200" in Symbols(firmware[:cut]).describe(0x10000200)
    damaged = bytearray(firmware)
    for position in range(len(damaged) // 2, len(damaged), 97):
        damaged[position] ^= 0xFF
    assert "0x10000200" in Symbols(bytes(damaged)).describe(0x10000200)


def with_sections(*sections: tuple[str, int, int, bytes, int, int]) -> bytes:
    """An ELF of sections: name, type, flags, content, size of an entry, linked section."""
    names, body, headers = b"\0", b"", [bytes(40)]
    for name, kind, flags, content, entry, link in (*sections, (".shstrtab", 3, 0, b"", 0, 0)):
        headers.append(struct.pack("<10I", len(names), kind, flags, 0, 52 + len(body), len(content), link, 0, 1, entry))
        names += name.encode() + b"\0"
        body += content
    headers[-1] = headers[-1][:16] + struct.pack("<2I", 52 + len(body), len(names)) + headers[-1][24:]
    numbers = (2, 40, 1, 0, 0, 52 + len(body) + len(names), 0, 52, 32, 0, 40, len(headers), len(headers) - 1)
    header = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", *numbers)
    return header + body + names + b"".join(headers)


def test_many_symbols_take_seconds_at_most() -> None:
    elf = with_sections((".symtab", 2, 0, bytes(1 << 20), 1, 2), (".strtab", 3, 0, b"\0", 0, 0))
    before = time.monotonic()
    assert Symbols(elf).describe(0x10000000) == "0x10000000"
    assert time.monotonic() - before < 10


def test_four_billion_sections_are_none() -> None:
    elf = bytearray(with_sections())
    struct.pack_into("<I", elf, struct.unpack_from("<I", elf, 32)[0] + 20, 0xFFFFFFFF)
    struct.pack_into("<3H", elf, 46, 0, 0, 0)
    assert Symbols(bytes(elf)).describe(0x10000000) == "0x10000000"


def test_a_section_that_unpacks_to_gigabytes_is_left_alone() -> None:
    """100 MB here; the file has 100 kB."""
    size = 100 << 20
    packed = struct.pack("<3I", 1, size, 1) + zlib.compress(bytes(size))
    elf = with_sections(
        (".debug_info", 1, 0x800, packed, 0, 0), (".debug_abbrev", 1, 0, b"\0", 0, 0), (".debug_line", 1, 0, b"", 0, 0)
    )
    tracemalloc.start()
    assert Symbols(elf).describe(0x10000000) == "0x10000000"
    assert tracemalloc.get_traced_memory()[1] < size // 2
    tracemalloc.stop()
