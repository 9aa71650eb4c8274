"""A runner's start-up is booted on the strict board: ours are clean, and each sabotaged one is found."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.record import Check
from ethos_hil.harness.dry_run import survey as module
from ethos_hil.harness.dry_run.survey import START_UP, runner_checks
from ethos_hil.harness.image.elf_lint import CHECKS
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.tests.guest_elf import Compiler
from ethos_hil.harness.run import Runner
from ethos_hil.harness.socs.registry import SOCS, find_soc
from ethos_hil.harness.socs.soc import Soc

ENABLE = """
    ldr r0, =0xE001E300
    ldr r1, [r0]
    bic r1, #0x33
    str r1, [r0]
    ldr r0, =0xE000ED88
    ldr r1, [r0]
    orr r1, r1, #0xF00000
    str r1, [r0]
"""
"""Gives access to the FPU and MVE."""


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return Compiler(tmp_path)


def rows(elf: bytes, soc: str = "corstone-300") -> tuple[Check, ...]:
    return runner_checks(Runner(Path("runner.elf"), elf), soc, find_soc(soc).npu_names[0])


def start_up(elf: bytes, soc: str = "corstone-300") -> list[tuple[str, str]]:
    return [(row.status, row.available) for row in rows(elf, soc) if row.name == START_UP]


@pytest.mark.parametrize("soc", [soc for soc in SOCS if soc.virtual], ids=lambda soc: soc.name)
def test_our_firmware_is_clean_on_its_part(soc: Soc) -> None:
    """Protects every board from a start-up that only a lenient virtual board forgives."""
    checks = rows(find_firmware(soc.name), soc.name)
    assert [(row.name, row.status) for row in checks] == [(check, "ok") for check in (*CHECKS, START_UP)]


def test_a_small_program_is_clean(compiler: Compiler) -> None:
    ((status, available),) = start_up(compiler.elf())
    assert (status, available) == ("ok", "it does, and ends with status 0, as it has no program")


@pytest.mark.parametrize(
    "code", ["vmov s0, r0", "vpush {d8}", "vmsr fpscr, r0", "vadd.i32 q0, q0, q0", "vldrw.u32 q0, [r2]"]
)
def test_an_fp_or_mve_instruction_before_cpacr_is_found(compiler: Compiler, code: str) -> None:
    ready, early = "ldr r2, =0x31000000", f"early: {code}; bx lr"
    ((status, available),) = start_up(compiler.elf(f"{ready}; bl early; {ENABLE}", more=early))
    assert status == "fail"
    assert "rule reset-state" in available
    assert "0x100004" in available
    assert [status for status, _ in start_up(compiler.elf(f"{ready}; {ENABLE}; bl early", more=early))] == ["ok"]


def test_an_fp_instruction_in_our_own_reset_handler_is_found() -> None:
    elf = find_firmware("corstone-300")
    file = ELFFile(io.BytesIO(elf))
    (handler,) = file.get_section_by_name(".symtab").get_symbol_by_name("reset_handler")
    text = file.get_section_by_name(".text")
    at = text["sh_offset"] + (handler["st_value"] & ~1) - text["sh_addr"]
    ((status, available),) = start_up(elf[:at] + bytes.fromhex("2ded020b") + elf[at + 4 :])  # vpush {d0}
    assert status == "fail"
    assert "rule reset-state" in available
    assert "reset_handler" in available
    assert "startup.cc:" in available


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
def test_bytes_before_words_in_a_tcm_are_a_note(compiler: Compiler, body: str, finds: bool) -> None:
    """And the rest of the start-up is looked at all the same."""
    found = start_up(compiler.elf(body))
    assert [status for status, _ in found] == ["note", "ok"][not finds :]
    assert ("rule tcm-ecc" in found[0][1]) is finds
    broken = start_up(compiler.elf(f"{body}; vmov s0, r0"))
    assert [status for status, _ in broken] == ["fail"], "what surely fails is said first"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("ldr r0, =0x31000002; ldrd r2, r3, [r0]", "Lockup"),
        ("ldr r0, =0x31000002; ldm r0, {r2, r3}", "Lockup"),
        ("ldr r0, =0x31000002; ldrex r2, [r0]", "Lockup"),
        (
            "ldr r0, =0x49303002; str r2, [r0]",
            "rule bus of the strict board: 4 bytes stored to 0x49303002",
        ),
        ("ldr r0, =0x08000000; str r2, [r0]", "Lockup"),
        ("ldr r0, =0x58000000; ldr r1, [r0]; bx r1", "Lockup"),
    ],
    ids=["LDRD", "LDM", "LDREX", "device", "nothing there", "jump"],
)
def test_accesses_that_a_part_refuses_are_found(compiler: Compiler, body: str, words: str) -> None:
    ((status, available),) = start_up(compiler.elf(body))
    assert status == "fail"
    assert words in available


def test_a_store_to_a_boot_memory_is_found(compiler: Compiler) -> None:
    elf = compiler.elf("ldr r0, =0x11010000; str r0, [r0]", boot=0x11000000, code=0x11000400)
    ((status, available),) = start_up(elf, "corstone-320")
    assert (status, "rule part-memories" in available) == ("fail", True)
    assert [status for status, _ in start_up(elf, "corstone-310")] == ["ok"], "which has RAM there"


@pytest.mark.parametrize(
    ("body", "status"), [("ldr r0, =0x30001000; msr msp, r0; push {r0}", "ok"), ("push {r0}", "fail")]
)
def test_a_stack_pointer_that_leads_nowhere_matters_where_it_is_used(
    compiler: Compiler, body: str, status: str
) -> None:
    assert [text for text, _ in start_up(compiler.elf(body, stack="0"))] == [status]


def test_a_fault_that_the_program_reports_itself_is_found(compiler: Compiler) -> None:
    handler = """
        .type hard, %function
        hard: ldr r1, =text; movs r0, #4; bkpt 0xAB
        movs r0, #0x18; ldr r1, =0x20023; bkpt 0xAB
        text: .asciz "Hard fault\\n"
        .balign 4
    """
    elf = compiler.elf("udf #0", vectors=".space 4; .word hard; .space 48", more=handler)
    ((status, available),) = start_up(elf)
    assert (status, available) == ("fail", "it ends with status 1: Hard fault")


def test_a_program_that_waits_for_its_host_is_a_note(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.5)
    ((status, available),) = start_up(compiler.elf("1: b 1b"))
    assert status == "note"
    assert "no end within 0.5 s: the program is in reset" in available


def test_what_is_not_booted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ((status, available),) = start_up(find_firmware("corstone-300"), "corstone-320")
    assert (status, available) == ("note", "not booted: see above")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "/nowhere")
        ((status, available),) = start_up(find_firmware("corstone-300"))
        assert status == "note"
        assert available.startswith("not booted: ")
    monkeypatch.setattr(module, "find_soc", lambda name: replace(find_soc(name), virtual=False))
    ((status, available),) = start_up(find_firmware("corstone-300"))
    assert (status, available) == ("note", "not booted: the virtual board cannot be a corstone-300")
