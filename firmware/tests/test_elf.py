"""The ELF that is flashed: where things are, how big it is, and what must not be in it."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

KIB = 1024
CODE_BUDGET = 160 * KIB
ITCM = (0x10000000, 0x10000000 + 512 * KIB)
DTCM = (0x30000000, 0x30000000 + 512 * KIB)
NPU_IRQ = 56


@pytest.fixture(scope="module")
def elf(firmware: bytes) -> ELFFile:
    return ELFFile(io.BytesIO(firmware))


@pytest.fixture(scope="module")
def symbols(elf: ELFFile) -> dict[str, int]:
    return {symbol.name: symbol["st_value"] for symbol in elf.get_section_by_name(".symtab").iter_symbols()}


def test_code_and_constants_fit_the_budget(elf: ELFFile) -> None:
    size = sum(elf.get_section_by_name(name)["sh_size"] for name in (".vectors", ".text", ".rodata"))
    assert size < CODE_BUDGET


def test_segments_are_in_the_tightly_coupled_memories(elf: ELFFile) -> None:
    loads = [segment.header for segment in elf.iter_segments("PT_LOAD")]
    for segment in loads:
        low, high = ITCM if segment.p_filesz else DTCM
        assert low <= segment.p_vaddr
        assert segment.p_vaddr + segment.p_memsz <= high
    assert any(segment.p_filesz for segment in loads)


def test_memory_symbols_describe_the_corstone_300(symbols: dict[str, int]) -> None:
    assert symbols["__package_start"] == 0x70000000
    assert symbols["__package_start"] < symbols["__package_limit"] <= symbols["__ddr_end"] == 0x80000000
    assert (symbols["__sram_pool_start"], symbols["__sram_pool_end"]) == (0x31000000, 0x31200000)
    assert symbols["__stack_limit"] < symbols["__stack_top"] <= DTCM[1]
    assert symbols["__fault_stack_limit"] < symbols["__fault_stack_top"] <= symbols["__stack_limit"]


def test_vector_table(elf: ELFFile, symbols: dict[str, int]) -> None:
    section = elf.get_section_by_name(".vectors")
    assert section["sh_addr"] == ITCM[0], "the core fetches its reset vector there"
    words = struct.unpack(f"<{section['sh_size'] // 4}I", section.data())
    size = len(words) * 4
    assert section["sh_addr"] % (1 << (size - 1).bit_length()) == 0, "VTOR ignores lower bits"
    assert words[0] == symbols["__stack_top"]
    own = {1: "reset_handler", 15: "systick_handler"}
    for exception, word in enumerate(words[1:], start=1):
        assert word & 1, "Thumb bit"
        if exception != 16 + NPU_IRQ:
            assert word == symbols[own.get(exception, "fault_handler")], f"exception {exception}"
    assert words[16 + NPU_IRQ] != symbols["fault_handler"]


def test_entry_point_is_the_reset_handler(elf: ELFFile, symbols: dict[str, int]) -> None:
    assert elf.header.e_entry == symbols["reset_handler"]


@pytest.mark.parametrize(
    "forbidden",
    ["malloc", "_malloc_r", "free", "_sbrk", "_Znwj", "_ZdlPv", "_Znaj", "__cxa_throw", "__cxa_atexit", "printf"],
)
def test_nothing_of_the_hosted_world_is_linked(symbols: dict[str, int], forbidden: str) -> None:
    assert forbidden not in symbols


def test_no_constructor_runs_before_main(elf: ELFFile) -> None:
    section = elf.get_section_by_name(".init_array")
    assert section is None or section["sh_size"] == 0


def test_build_id_and_line_table(elf: ELFFile, symbols: dict[str, int]) -> None:
    notes = list(elf.get_section_by_name(".note.gnu.build-id").iter_notes())
    assert [note["n_type"] for note in notes] == ["NT_GNU_BUILD_ID"]
    main = symbols["main"] & ~1
    files = set()
    for unit in elf.get_dwarf_info().iter_CUs():
        lines = elf.get_dwarf_info().line_program_for_CU(unit)
        first = 0 if lines.header.version >= 5 else 1  # DWARF 5 counts files from 0
        for entry in lines.get_entries():
            if entry.state and entry.state.address == main and not entry.state.end_sequence:
                files.add(lines.header["file_entry"][entry.state.file - first].name.decode())
    assert files == {"main.cc"}


def test_no_path_of_the_build_machine_is_in_the_elf(firmware: bytes, elf_path: Path) -> None:
    root = elf_path.parents[3]
    assert str(root).encode() not in firmware
