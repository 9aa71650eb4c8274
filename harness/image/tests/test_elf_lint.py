"""The static checks of an ELF: our boards' are clean, and each check finds a program that was made to fail it."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.harness.image.elf_lint import CHECKS, SEGMENTS, VECTORS, Flaw, Severity, lint, lint_rows
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.segments import ElfError
from ethos_hil.harness.image.tests.guest_elf import Compiler
from ethos_hil.harness.socs.registry import SOCS, find_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.mps3_an547 import RAMS

ERROR, WARNING = Severity.ERROR, Severity.WARNING
_EHDR, _PHDR = struct.Struct("<16sHHIIIIIHHHHHH"), struct.Struct("<IIIIIIII")


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


def checked(elf: bytes, soc: str = "corstone-300") -> tuple[Flaw, ...]:
    return lint(elf, find_soc(soc), RAMS)


def findings_of(flaws: tuple[Flaw, ...]) -> list[tuple[str, Severity]]:
    return [(flaw.check, flaw.severity) for flaw in flaws]


def with_segment(elf: bytes, number: int, **fields: int) -> bytes:
    """Change a program header."""
    names = ("type", "offset", "vaddr", "paddr", "filesz", "memsz", "flags", "align")
    at = _EHDR.unpack_from(elf)[5] + number * _PHDR.size
    values = dict(zip(names, _PHDR.unpack_from(elf, at), strict=True)) | fields
    return elf[:at] + _PHDR.pack(*values.values()) + elf[at + _PHDR.size :]


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_our_firmware_is_clean_on_its_part(soc: Soc) -> None:
    assert checked(find_firmware(soc.name), soc.name) == ()
    assert [(row.name, row.status) for row in lint_rows(())] == [(check, "ok") for check in CHECKS]


def test_a_small_program_is_clean(compiler: Compiler) -> None:
    assert checked(compiler.elf()) == ()


# --- The vector table. ---


@pytest.mark.parametrize(
    ("options", "severity", "words"),
    [
        ({"stack": "0x20000000 - 8"}, WARNING, "in no memory"),
        ({"stack": "0x30001004"}, WARNING, "not a multiple of 8"),
        ({"reset": "0x10000400"}, ERROR, "even"),
        ({"reset": "0x31000001"}, ERROR, "in no executable segment"),
        ({"vectors": ".word 0x10000400; .space 52"}, WARNING, "exception 2 is even"),
        ({"vectors": ".space 4; .word 0x60000001; .space 48"}, WARNING, "exception 3 is in no executable segment"),
    ],
    ids=["stack nowhere", "odd stack", "even reset", "reset to data", "even vector", "vector to nothing"],
)
def test_a_wrong_vector_is_found(compiler: Compiler, options: dict[str, str], severity: Severity, words: str) -> None:
    flaws = checked(compiler.elf(**options))  # type: ignore[arg-type]
    assert findings_of(flaws)[0] == (VECTORS, severity)
    assert words in flaws[0].message
    assert flaws[0].remedy


def test_the_firmware_of_another_board_has_no_vector_table() -> None:
    flaws = checked(find_firmware("corstone-300"), "corstone-320")
    assert (VECTORS, ERROR) in findings_of(flaws)
    assert "0x11000000" in flaws[0].place
    row = lint_rows(flaws)[0]
    assert (row.name, row.status, row.fix) == (VECTORS, "fail", flaws[0].remedy)


def test_what_is_no_reserved_word_of_a_longer_table_is_looked_at(compiler: Compiler) -> None:
    """Interrupts too: the table's own symbol says how long it is."""
    table = ".space 56; .word 0x10000400; .type vector_table, %object; .set vector_table, 0x10000000"
    plain = compiler.elf(vectors=table)
    assert checked(plain) == ()
    flaws = checked(compiler.elf(vectors=f"{table}; .size vector_table, 68; .global vector_table"))
    assert [finding.message for finding in flaws] == ["the vector of exception 16 is even: taking it would fault"]


# --- The segments. ---

DATA = '.section .more, "aw"; .word 1, 2, 3, 4'


@pytest.mark.parametrize(
    ("address", "soc", "severity", "words"),
    [
        (0x12000000, "corstone-300", ERROR, "a corstone-300 has no memory there"),
        (
            0x30007FFC,
            "corstone-320",
            ERROR,
            "the DTCM of a corstone-320 has 32 KiB; the virtual board has memory there",
        ),
        (0x10008000, "corstone-310", ERROR, "a corstone-310 has no memory there; the virtual board has memory there"),
        (0x110FFFFC, "corstone-300", WARNING, "the BRAM has 2,048 KiB on some boards, 1,024 KiB on others"),
        (0x1101FF00, "corstone-320", WARNING, "only the board writes the BROM"),
    ],
)
def test_a_segment_where_the_part_has_no_memory_is_found(
    compiler: Compiler, address: int, soc: str, severity: Severity, words: str
) -> None:
    boot = find_soc(soc).boot
    # Those behind the code in the file come in another order, which is a finding of its own.
    elf = compiler.elf(more=DATA, boot=boot, code=boot + 0x400, sections=f"-Wl,--section-start=.more=0x{address:x}")
    flaws = checked(elf, soc)
    messages = {finding.message: finding.severity for finding in flaws if finding.check == SEGMENTS}
    (message,) = [message for message in messages if words in message]
    assert messages[message] is severity


def test_a_non_secure_address_is_one_of_the_part(compiler: Compiler) -> None:
    flaws = checked(compiler.elf(more=DATA, sections="-Wl,--section-start=.more=0x20000000"))
    assert flaws == ()


def segments_of(elf: bytes) -> list[int]:
    return [
        number
        for number, segment in enumerate(ELFFile(io.BytesIO(elf)).iter_segments())
        if segment["p_type"] == "PT_LOAD"
    ]


@pytest.mark.parametrize(
    ("fields", "severity", "words"),
    [
        ({"vaddr": 0x0F000000}, WARNING, "ascending order"),
        ({"vaddr": 0x10000020, "paddr": 0x31000000}, ERROR, "overlaps the segment at 0x10000000"),
        ({"vaddr": 0x30000000, "paddr": 0x50000000}, ERROR, "is loaded at 0x50000000"),
        ({"memsz": 1 << 20}, ERROR, "the DTCM of a corstone-300 has 512 KiB"),
    ],
)
def test_misplaced_segments_are_found(
    compiler: Compiler, fields: dict[str, int], severity: Severity, words: str
) -> None:
    elf = compiler.elf(more=DATA, sections="-Wl,--section-start=.more=0x30000000")
    last = segments_of(elf)[-1]
    flaws = checked(with_segment(elf, last, **fields))
    assert severity in {finding.severity for finding in flaws if words in finding.message}, flaws


def test_variables_in_a_boot_memory_are_an_error(compiler: Compiler) -> None:
    elf = compiler.elf(more=DATA, boot=0x11000000, code=0x11000400, sections="-Wl,--section-start=.more=0x11010000")
    flaws = checked(with_segment(elf, segments_of(elf)[-1], memsz=64), "corstone-320")
    assert [finding.severity for finding in flaws if "starts as zero" in finding.message] == [ERROR]


def test_initial_data_that_variables_cover_are_found(compiler: Compiler) -> None:
    more = f"{DATA}; .section .bss; .space 256"
    places = "-Wl,--section-start=.more=0x30000000 -Wl,--section-start=.bss=0x31000000"
    elf = compiler.elf(more=more, sections=places)
    number = segments_of(elf)[-2]
    flaws = checked(with_segment(elf, number, paddr=0x31000010))
    assert findings_of(flaws) == [(SEGMENTS, WARNING)]
    assert "a reset without another load loses them" in flaws[0].message


def test_what_is_no_elf_is_refused() -> None:
    with pytest.raises(ElfError):
        lint(b"hello", find_soc("corstone-300"))
