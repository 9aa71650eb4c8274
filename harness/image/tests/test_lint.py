"""The checks of an ELF: our boards' are clean, and each check finds a program that was made to fail it."""

from __future__ import annotations

import io
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.lint.lint import LintReport, lint
from ethos_hil.harness.image.lint.program import ACCESSES, CHECKS, FP_ENABLED, SEGMENTS, TCM_WORDS, VECTORS, Severity
from ethos_hil.harness.image.segments import ElfError
from ethos_hil.harness.image.thumb import needs_fp
from ethos_hil.harness.socs.registry import SOCS, find_soc
from ethos_hil.harness.virtual.mps3_an547 import RAMS

ERROR, WARNING = Severity.ERROR, Severity.WARNING
_EHDR, _PHDR = struct.Struct("<16sHHIIIIIHHHHHH"), struct.Struct("<IIIIIIII")
ENABLE = """
    ldr r0, =0xE000ED88
    ldr r1, [r0]
    orr r1, r1, #0xF00000
    str r1, [r0]
"""
"""Gives access to the FPU and MVE."""


@dataclass
class Compiler:
    """Makes ELFs of a few lines of assembly, for a Corstone-300 unless told otherwise."""

    folder: Path

    def elf(
        self,
        body: str = "",
        *,
        more: str = "",
        stack: str = "0x30001000",
        reset: str = "reset",
        vectors: str = ".space 56",
        boot: int = 0x10000000,
        code: int = 0x10000400,
        sections: str = "",
    ) -> bytes:
        source = f"""
            .syntax unified
            .thumb
            .arch armv8.1-m.main
            .arch_extension mve.fp
            .fpu fpv5-d16
            .section .vectors, "ax"
            .word {stack}
            .word {reset}
            {vectors}
            .text
            .type main, %function
            .type reset, %function
            .global main, reset
        reset:
            {body}
            bl main
            b .
            .ltorg
        main:
            b .
            {more}
            .ltorg
        """
        assembly, elf = self.folder / "guest.s", self.folder / "guest.elf"
        assembly.write_text(source)
        places = [f"-Wl,--section-start=.vectors=0x{boot:x}", f"-Wl,-Ttext=0x{code:x}", *sections.split()]
        options = ["-nostdlib", "-march=armv8.1-m.main+mve.fp+fp.dp", "-mfloat-abi=hard", "-mthumb", "-Wl,-e,reset"]
        command = ["arm-none-eabi-gcc", *options, "-Wl,--no-warn-rwx-segments", *places]
        subprocess.run([*command, "-o", str(elf), str(assembly)], check=True, capture_output=True)
        return elf.read_bytes()


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


def checked(elf: bytes, soc: str = "corstone-300") -> LintReport:
    return lint(elf, find_soc(soc), RAMS)


def findings_of(report: LintReport) -> list[tuple[str, Severity]]:
    return [(finding.check, finding.severity) for finding in report.findings]


def with_segment(elf: bytes, number: int, **fields: int) -> bytes:
    """Change a program header."""
    names = ("type", "offset", "vaddr", "paddr", "filesz", "memsz", "flags", "align")
    at = _EHDR.unpack_from(elf)[5] + number * _PHDR.size
    values = dict(zip(names, _PHDR.unpack_from(elf, at), strict=True)) | fields
    return elf[:at] + _PHDR.pack(*values.values()) + elf[at + _PHDR.size :]


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_our_firmware_is_clean_on_its_part(soc: object) -> None:
    """Protects every board from a start-up that only a virtual board forgives."""
    name = soc.name  # type: ignore[attr-defined]
    report = checked(find_firmware(name), name)
    assert report.findings == ()
    assert report.walk is not None
    assert report.walk.complete, report.walk.end
    assert report.walk.left_open == ()
    assert [(row.name, row.status) for row in report.rows] == [(check, "ok") for check in CHECKS]


def test_a_small_program_is_clean(compiler: Compiler) -> None:
    report = checked(compiler.elf())
    assert (report.findings, report.walk and report.walk.complete) == ((), True)


# --- The vector table. ---


@pytest.mark.parametrize(
    ("options", "severity", "words"),
    [
        ({"stack": "0x20000000 - 8"}, ERROR, "in no memory"),
        ({"stack": "0x30001004"}, WARNING, "not a multiple of 8"),
        ({"reset": "0x10000400"}, ERROR, "even"),
        ({"reset": "0x31000001"}, ERROR, "in no executable segment"),
        ({"vectors": ".word 0x10000400; .space 52"}, WARNING, "exception 2 is even"),
        ({"vectors": ".space 4; .word 0x60000001; .space 48"}, WARNING, "exception 3 is in no executable segment"),
        ({"body": "ldr r0, =0xE000ED08; ldr r1, =0x10000040; str r1, [r0]"}, ERROR, "not a multiple of 128"),
    ],
    ids=["stack nowhere", "odd stack", "even reset", "reset to data", "even vector", "vector to nothing", "VTOR"],
)
def test_a_wrong_vector_is_found(compiler: Compiler, options: dict[str, str], severity: Severity, words: str) -> None:
    report = checked(compiler.elf(**options))  # type: ignore[arg-type]
    assert findings_of(report)[0] == (VECTORS, severity)
    assert words in report.findings[0].message
    assert report.findings[0].remedy


def test_a_stack_that_start_up_sets_itself_makes_the_tables_matter_less(compiler: Compiler) -> None:
    report = checked(compiler.elf("ldr r0, =0x30001000; msr msp, r0; push {r0}", stack="0"))
    assert findings_of(report) == [(VECTORS, WARNING)]


def test_the_firmware_of_another_board_has_no_vector_table() -> None:
    report = checked(find_firmware("corstone-300"), "corstone-320")
    assert (VECTORS, ERROR) in findings_of(report)
    assert "0x11000000" in report.findings[0].place
    assert report.walk is None
    assert {row.status for row in report.rows if row.name in (FP_ENABLED, TCM_WORDS, ACCESSES)} == {"note"}


def test_what_is_no_reserved_word_of_a_longer_table_is_looked_at(compiler: Compiler) -> None:
    """Interrupts too: the table's own symbol says how long it is."""
    table = ".space 56; .word 0x10000400; .type vector_table, %object; .set vector_table, 0x10000000"
    plain = compiler.elf(vectors=table)
    assert checked(plain).findings == ()
    report = checked(compiler.elf(vectors=f"{table}; .size vector_table, 68; .global vector_table"))
    assert [finding.message for finding in report.findings] == [
        "the vector of exception 16 is even: taking it would fault"
    ]


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
    report = checked(elf, soc)
    messages = {finding.message: finding.severity for finding in report.findings if finding.check == SEGMENTS}
    (message,) = [message for message in messages if words in message]
    assert messages[message] is severity


def test_a_non_secure_address_is_one_of_the_part(compiler: Compiler) -> None:
    report = checked(compiler.elf(more=DATA, sections="-Wl,--section-start=.more=0x20000000"))
    assert report.findings == ()


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
    report = checked(with_segment(elf, last, **fields))
    assert severity in {finding.severity for finding in report.findings if words in finding.message}, report.findings


def test_variables_in_a_boot_memory_are_an_error(compiler: Compiler) -> None:
    elf = compiler.elf(more=DATA, boot=0x11000000, code=0x11000400, sections="-Wl,--section-start=.more=0x11010000")
    report = checked(with_segment(elf, segments_of(elf)[-1], memsz=64), "corstone-320")
    assert [finding.severity for finding in report.findings if "starts as zero" in finding.message] == [ERROR]


def test_initial_data_that_variables_cover_are_found(compiler: Compiler) -> None:
    more = f"{DATA}; .section .bss; .space 256"
    places = "-Wl,--section-start=.more=0x30000000 -Wl,--section-start=.bss=0x31000000"
    elf = compiler.elf(more=more, sections=places)
    number = segments_of(elf)[-2]
    report = checked(with_segment(elf, number, paddr=0x31000010))
    assert findings_of(report) == [(SEGMENTS, WARNING)]
    assert "a reset without another load loses them" in report.findings[0].message


def test_what_is_no_elf_is_refused() -> None:
    with pytest.raises(ElfError):
        lint(b"hello", find_soc("corstone-300"))


# --- What start-up does. ---


@pytest.mark.parametrize(
    "code",
    [
        "vmov s0, r0",
        "vpush {d8}",
        "vmsr fpscr, r0",
        "vadd.i32 q0, q0, q0",
        "vldrw.u32 q0, [r1]",
        "dlstp.8 lr, r0",
        "vstrb.8 q0, [r1]",
    ],
)
def test_an_fp_or_mve_instruction_before_cpacr_is_an_error(compiler: Compiler, code: str) -> None:
    report = checked(compiler.elf(f"ldr r1, =0x30000000; bl early; {ENABLE}", more=f"early: {code}; bx lr"))
    assert findings_of(report) == [(FP_ENABLED, ERROR)]
    assert "0x100004" in report.findings[0].place
    after = checked(compiler.elf(f"ldr r1, =0x30000000; {ENABLE}; bl early", more=f"early: {code}; bx lr"))
    assert findings_of(after) == []


def test_an_fp_instruction_in_our_own_reset_handler_is_an_error() -> None:
    elf = find_firmware("corstone-300")
    file = ELFFile(io.BytesIO(elf))
    (handler,) = file.get_section_by_name(".symtab").get_symbol_by_name("reset_handler")
    text = file.get_section_by_name(".text")
    at = text["sh_offset"] + (handler["st_value"] & ~1) - text["sh_addr"]
    report = checked(elf[:at] + bytes.fromhex("2ded020b") + elf[at + 4 :])  # vpush {d0}
    (finding,) = report.errors
    assert finding.check == FP_ENABLED
    assert "reset_handler" in finding.place
    assert "startup.cc:" in finding.place


@pytest.mark.parametrize("enable", ["", ENABLE], ids=["never enabled", "enabled"])
def test_code_for_an_fpu_that_nobody_enables_is_found(compiler: Compiler, enable: str) -> None:
    elf = compiler.elf(enable)
    hard_float = elf[:36] + (int.from_bytes(elf[36:40], "little") | 0x400).to_bytes(4, "little") + elf[40:]
    assert findings_of(checked(elf)) == []
    assert findings_of(checked(hard_float)) == ([] if enable else [(FP_ENABLED, WARNING)])


def test_what_depends_on_a_device_is_a_warning(compiler: Compiler) -> None:
    body = f"ldr r2, =0x58000000; ldr r3, [r2]; tst r3, #1; bne 1f; vmov s0, r0; 1: {ENABLE}"
    report = checked(compiler.elf(body))
    assert report.walk is not None
    # The way through the instruction ends in a fault, so the other one is taken, and reaches main.
    assert report.walk.complete
    assert report.findings == ()
    assert "a condition at" in report.walk.left_open[0]
    both = f"ldr r2, =0x58000000; ldr r3, [r2]; tst r3, #1; bne 1f; nop; 1: vmov s0, r0; {ENABLE}"
    assert findings_of(checked(compiler.elf(both))) == [(FP_ENABLED, WARNING)]


def test_loops_that_wait_for_a_device_are_passed(compiler: Compiler) -> None:
    waits = "ldr r2, =0x58000000; 1: ldr r3, [r2]; tst r3, #1; beq 1b; 2: ldr r3, [r2]; cbz r3, 3f; b 2b; 3: nop"
    assert checked(compiler.elf(waits)).walk.complete  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "finds"),
    [
        ("ldr r0, =0x30000000; strb r1, [r0]", True),
        ("ldr r0, =0x30000002; strh r1, [r0]", True),
        ("ldr r0, =0x30000001; str r1, [r0]", True),
        ("ldr r0, =0x30000000; movs r1, #0; str r1, [r0]; strb r1, [r0]", False),
        ("ldr r0, =0x31000000; strb r1, [r0]", False),
        ("ldr r0, =0x30000100; ldr r1, =0x30000110; 1: strb r2, [r0], #1; cmp r0, r1; bne 1b", True),
        ("ldr r0, =0x30000100; movs r1, #4; dls lr, r1; 1: str r2, [r0], #4; le lr, 1b; strb r2, [r0, #-1]", False),
        ("ldr r0, =0x20000000; strb r1, [r0]", True),
    ],
    ids=["byte", "halfword", "unaligned", "after a word", "no TCM", "byte loop", "after a word loop", "non-secure"],
)
def test_bytes_before_words_in_a_tcm_are_found(compiler: Compiler, body: str, finds: bool) -> None:
    report = checked(compiler.elf(body))
    assert findings_of(report) == ([(TCM_WORDS, WARNING)] if finds else [])


@pytest.mark.parametrize(
    ("body", "words", "severity"),
    [
        ("ldr r0, =0x31000002; ldrd r2, r3, [r0]", "not aligned", ERROR),
        ("ldr r0, =0x31000002; ldm r0, {r2, r3}", "not aligned", ERROR),
        ("ldr r0, =0x31000002; ldrex r2, [r0]", "not aligned", ERROR),
        ("ldr r0, =0x58000002; str r2, [r0]", "a device faults", ERROR),
        ("ldr r0, =0xDFFFFFFC; str r2, [r0]", "has nothing", None),
        ("ldr r0, =0x08000000; str r2, [r0]", "where a corstone-300 has nothing", ERROR),
    ],
)
def test_accesses_that_a_part_refuses_are_found(
    compiler: Compiler, body: str, words: str, severity: Severity | None
) -> None:
    report = checked(compiler.elf(body))
    assert findings_of(report) == ([(ACCESSES, severity)] if severity else [])
    assert severity is None or words in report.findings[0].message


def test_a_store_to_a_boot_memory_is_found(compiler: Compiler) -> None:
    elf = compiler.elf("ldr r0, =0x11010000; str r0, [r0]", boot=0x11000000, code=0x11000400)
    assert findings_of(checked(elf, "corstone-320")) == [(ACCESSES, WARNING)]
    assert findings_of(checked(elf, "corstone-310")) == [], "which has RAM there"


def test_where_start_up_is_not_followed_is_said(compiler: Compiler) -> None:
    report = checked(compiler.elf("ldr r2, =0x58000000; ldr r3, [r2]; bx r3"))
    assert report.walk is not None
    assert not report.walk.complete
    rows = {row.name: row for row in report.rows}
    assert rows[FP_ENABLED].status == "note"
    assert "an address that is not known" in rows[FP_ENABLED].available


@pytest.mark.parametrize(
    ("first", "second", "needs"),
    [(0xF040, 0xE001, False), (0xF00F, 0xC003, False), (0xF01F, 0xC003, True), (0xF000, 0xE001, True),
     (0xF000, 0xF801, False), (0xEC51, 0x0B10, True), (0xEE11, 0x0F10, True), (0xEE11, 0x0710, False),
     (0xEC21, 0x0A00, False), (0xEF02, 0x0842, True)],
)  # fmt: skip
def test_instructions_of_the_fpu_and_mve_are_told_from_others(first: int, second: int, needs: bool) -> None:
    """dls, le, letp, dlstp, bl, vmov, mrc of coprocessor 15 and 7, vlstm, vadd."""
    assert needs_fp(first, second) is needs
