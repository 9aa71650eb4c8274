"""The strict board's rules about the processor: programs that break one, each beside one that just does not.

What becomes of each program is recorded: that it keeps the rules, or which one it breaks, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.rules import Rule
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, CORSTONE_310, CORSTONE_320
from ethos_hil.harness.virtual.tests.test_fittings import error_of, machine

Assemble = Callable[..., bytes]
SOCS = (CORSTONE_300, CORSTONE_310, CORSTONE_320)
TCM = (Rule.TCM_ECC, Rule.MEMORY_PATTERN)
SET_UP = "ldr r8, =0x59303000\n movs r6, #16\n str r6, [r8, #16]\n movs r6, #1\n str r6, [r8, #8]\n"
BYTE = "movs r6, #0x41\n str r6, [r8]\n"
DONE = b"."
END = f"{SET_UP} ldr r6, [r8, #4]\n movs r6, #{DONE[0]}\n str r6, [r8]\n park: b park\n .ltorg\n"
"""Sends DONE, which says that the program got here, and parks."""
ENABLE_FLOATING_POINT = """
    ldr r1, =0xE001E300
    ldr r2, [r1]
    bic r2, #0x33
    str r2, [r1]
    ldr r1, =0xE000ED88
    ldr r2, =0xF00000
    str r2, [r1]
    dsb
    isb
"""


MVE = ".arch_extension mve\n"


def words(text: str) -> list[str]:
    """Return programs, one a line, with instructions apart by semicolons."""
    return [line.strip().replace("; ", "\n") for line in text.strip().splitlines()]


def accesses(text: str) -> str:
    """Return a program of accesses, as "ldr 0x20000000, strb 0x30000000"."""
    pairs = (access.split() for access in text.split(", "))
    return "".join(f"ldr r1, ={address}\n {instruction} r1, [r1]\n" for instruction, address in pairs)


PUSHED = """ldr r1, =0xE000ED08
    ldr r2, =0x31000000
    ldr r3, =called
    str r3, [r2, #44]        @ SVCall
    str r2, [r1]
    dsb
    svc #0
    {end}
    .thumb_func
    .type called, %function
called: {body}
    bx lr
"""
COPIED = "ldr r1, =0x1000{page}000\n ldr r2, =0x4770\n {store}\n adds r1, #1\n blx r1\n"
DEVICE = "ldr r1, =0xA0000000\n "
Program = tuple[Soc, tuple[Rule, ...], str]


def programs() -> Iterator[tuple[str, Program]]:
    """Each program's name, the board, the rules, and the body."""
    tables: dict[str, tuple[Soc, tuple[Rule, ...], list[str]]] = {
        "a word of a TCM is written before it is read": (CORSTONE_300, TCM, words(TCM_WORDS)),
        "also on a Corstone-320": (
            CORSTONE_320, TCM, [body.replace("sub sp", "ldr sp, =0x30008000\n sub sp")
            .replace("push", "ldr sp, =0x30008000\n push") for body in words(TCM_WORDS)],
        ),
        # A handler reads the stacked program counter, which QEMU writes past its plug-ins, and changes one byte of it;
        # the word below the stacked registers is not written.
        "what an exception pushes is written": (CORSTONE_300, TCM, [
            PUSHED.format(end=END, body="ldr r1, [sp, #24]\n strb r1, [sp, #24]\n ldrb r1, [sp, #1]"),
            PUSHED.format(end=END, body="ldr r1, [sp, #-4]"),
        ]),
        "QEMU's own UART is set up and asked": (CORSTONE_300, (Rule.UART,), [
            SET_UP + BYTE,  # nothing was sent before the first byte
            SET_UP + BYTE + BYTE,
            SET_UP.replace("#16\n str", "#16\n @ str") + BYTE,
            SET_UP.replace("str r6, [r8, #8]", "") + BYTE,
            # QEMU sends with any divider. It is looked at when the program first uses the NPU.
            SET_UP.replace("#16\n", "#15\n", 1) + BYTE + "ldr r1, [r0, #0x28]\n",
            SET_UP + "ldr r1, [r0, #0x28]\n",
        ]),
        "device memory is accessed aligned and by words": (CORSTONE_300, (Rule.BUS,), [
            *words(BUS),
            ENABLE_FLOATING_POINT + DEVICE + "vldr d0, [r1]",
            ENABLE_FLOATING_POINT + "ldr r1, =0xA0000001\n" + MVE + "vstrb.8 q0, [r1]\n vldrh.u16 q0, [r1]",
        ]),
        "memories of a Corstone-300": (CORSTONE_300, (Rule.PART_MEMORIES,), [*map(accesses, (
            "str 0x1107FFFC", "str 0x110FFFFC, ldr 0x21000000", "str 0x11100000", "ldr 0x31200000", "ldr 0x21200000",
        ))]),
        "memories of a Corstone-310": (CORSTONE_310, (Rule.PART_MEMORIES,), [
            *map(accesses, ("str 0x10007FFC, str 0x111FFFFC", "ldr 0x10008000", "str 0x30008000")),
            # A function that is copied behind the end of the ITCM, by its alias, and called. QEMU's memory is zero
            # there, `movs r0, r0`, and then the end of its ITCM.
            COPIED.format(page=7, store="str r2, [r1]"), COPIED.format(page=8, store="nop"),
        ]),
        "memories of a Corstone-320": (CORSTONE_320, (Rule.PART_MEMORIES,), [
            *map(accesses, ("str 0x313FFFFC, ldr 0x1101FFFC", "str 0x00007FFC, str 0x20007FFC", "ldr 0x11020000",
                            "str 0x1101FFFC", "strb 0x01010000", "ldr 0x10008000")),
            # A store to a read-only memory, and then a lockup: the breach comes before the crash that it causes.
            accesses("str 0x11010000") + "ldr r1, =0xE000ED08\n ldr r2, =0x20000000\n str r2, [r1]\n udf #0\n",
        ]),
        "floating point is off at the start": (CORSTONE_300, (Rule.RESET_STATE,), [
            ENABLE_FLOATING_POINT + "vmov s0, r1\n vmov r2, s0\n vmrs r1, fpscr\n",
            ENABLE_FLOATING_POINT + MVE + "vadd.i32 q0, q0, q0\n vldrw.u32 q0, [r1]\n",
            "vmov s0, r1\n",
            *(ENABLE_FLOATING_POINT.replace(f"ldr r1, ={register}", "ldr r1, =0x31000000") + "vmov s0, r1\n"
              for register in ("0xE001E300", "0xE000ED88")),
            MVE + "vadd.i32 q0, q0, q0\n", MVE + "vldrb.u8 q0, [r1]\n", MVE + "vmov q0[2], q0[0], r1, r2\n",
            MVE + "vctp.32 r1\n", "vmrs r1, fpscr\n", "vpush {s0}\n",
        ]),
    }  # fmt: skip
    for name, (soc, rules, bodies) in tables.items():
        yield from ((f"{name} {number}", (soc, rules, body)) for number, body in enumerate(bodies, 1))


TCM_WORDS = """
    ldr r1, =0x30001000; str r1, [r1]; ldr r2, [r1]; ldrb r2, [r1, #3]; strb r2, [r1, #1]
    ldr r1, =0x30001000; str r1, [r1]; ldr r1, =0x20001000; ldr r2, [r1]   @ the same word
    ldr r1, =0x30001000; push {r1}; pop {r2}; strd r1, r2, [r1]; ldrd r1, r2, [r1]
    ldr r1, =0x31001000; ldr r2, [r1]; strb r2, [r1, #9]                   @ SRAM, not a TCM
    ldr r1, =0x30001000; ldr r2, [r1]
    ldr r1, =0x20001000; ldr r2, [r1]
    ldr r1, =0x30001000; ldrb r2, [r1, #2]
    ldr r1, =0x30001000; strb r1, [r1, #2]
    ldr r1, =0x30001000; strh r1, [r1]
    ldr r1, =0x30001000; str r1, [r1, #2]
    ldr r1, =0x30001000; str r1, [r1]; ldrd r2, r3, [r1]
    sub sp, #8; pop {r2}
    ldr r1, =0x10007F00; ldr r2, [r1]
    ldr r1, =0x10007F00; strb r2, [r1]
"""
BUS = """
    ldr r1, =0x59303000; ldr r2, [r1]; ldrb r2, [r1, #3]; ldrd r2, r3, [r1]; ldm r1, {r2, r3}
    ldr r1, =0xA0000000; str r1, [r1]; ldrh r2, [r1, #2]
    ldr r1, =0x60000000; ldr r2, [r1, #1]; ldrex r2, [r1]; strex r3, r2, [r1]   @ Normal memory
    ldr r1, =0xA0000000; ldr r2, [r1, #1]
    ldr r1, =0xA0000000; strh r2, [r1, #3]
    ldr r1, =0x59303000; ldrh r2, [r1, #1]
    ldr r1, =0xA0000000; ldrex r2, [r1]
    ldr r1, =0xA0000000; ldrexb r2, [r1]
    ldr r1, =0xA0000000; ldaexh r2, [r1]
    ldr r1, =0xA0000000; ldaex r2, [r1]
    ldr r1, =0x60000000; ldr r3, =0xA0000000; ldrex r2, [r1]; mov r1, r3; strex r4, r2, [r1]; ldrexh r2, [r3]
"""
PROGRAMS = dict(programs())


def outcome(elf: bytes, soc: Soc, rules: tuple[Rule, ...], **more: Any) -> str:
    """Run a program until it says that it is done, or breaks a rule."""
    data = b""
    with machine(elf, soc, rules=frozenset(rules), **more) as board:
        try:
            while not data.endswith(DONE):
                data += board.output()
            board.check_rules()
        except TargetError as error:
            return f"{error.kind}: {error.message}"
    return f"it keeps the rules, and sends {data!r}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_keeps_the_rules_or_is_told_which_it_breaks_and_where(
    assemble: Assemble, recorded: Recorded, name: str
) -> None:
    soc, rules, body = PROGRAMS[name]
    elf = assemble(body if END in body else body + "\n" + END, soc)
    recorded.check(f"{body.replace(END, '')}\n-> {outcome(elf, soc, rules)}")


def test_a_breach_comes_before_the_time_limit(assemble: Assemble) -> None:
    elf = assemble("ldr r1, =0x30000000\n ldr r1, [r1]\n park:\n b park\n .ltorg\n")
    assert outcome(elf, CORSTONE_300, TCM, seconds=1.0).startswith("board-rule: rule tcm-ecc")


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_memory_holds_noise_at_the_start(assemble: Assemble, soc: Soc) -> None:
    """All RAM of QEMU around the image and what follows the image in the DDR; the image itself is whole."""
    elf = assemble("park:\n b park\n", soc)
    contents = []
    for _ in range(2):
        with machine(elf, soc, rules=frozenset({Rule.MEMORY_PATTERN})) as board:
            places = ((0x10040000, 256), (0x111FFF00, 256), (0x30000000, 256), (0x3007FF00, 256), (0x31000000, 256),
                      (0x313FFF00, 256), (0x60000000, 256), (0x70000000, 256), (0x703FFF00, 256))  # fmt: skip
            contents.append([board.read(*place) for place in places])
            assert board.read(0x70400000, 256) == bytes(256)
            assert board.read(soc.boot, 4) == bytes.fromhex("00000830")
    assert contents[0] == contents[1]
    assert all(len(set(data)) > 100 for data in contents[0])


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_exceptions_use_the_boot_memorys_vector_table_until_the_program_says_otherwise(
    assemble: Assemble, soc: Soc
) -> None:
    """A program that never writes VTOR. QEMU's machine starts with a Corstone-300's, whatever the system is."""
    elf = assemble("ldr r1, =0xE000ED08\n ldr r4, [r1]\n svc #0\n" + END, soc)
    with machine(elf, soc, rules=frozenset({Rule.RESET_STATE}), seconds=1.0) as board:
        with pytest.raises(TimeoutError):
            board.output()
        assert str(board.where()).startswith("unexpected at 0x")
    if soc is not CORSTONE_300:
        error = error_of(machine(elf, soc))
        assert error.kind == "crashed"
