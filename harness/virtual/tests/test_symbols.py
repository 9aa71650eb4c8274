"""Addresses become functions and lines, and never an error."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.harness.image.symbols import Symbols


def test_assembly_with_line_tables(assemble: Callable[[str], bytes]) -> None:
    elf = assemble("park:\n b park\n")
    entry = next(s for s in ELFFile(io.BytesIO(elf)).get_section_by_name(".symtab").iter_symbols() if s.name == "reset")
    address = entry["st_value"] & ~1
    assert Symbols(elf).describe(address | 1).startswith(f"reset at 0x{address:08x} (guest.s:")


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
