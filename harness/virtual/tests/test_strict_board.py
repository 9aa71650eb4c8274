"""The strict board's rules about the processor: programs that break one, each beside one that just does not.

What becomes of each program is recorded: that it keeps the rules, or which one it breaks, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.socs.soc import Soc, Window
from ethos_hil.harness.virtual.fittings import Adapters, Fittings
from ethos_hil.harness.virtual.mps3_an547 import UART0
from ethos_hil.harness.virtual.rules import Rule
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, CORSTONE_310, CORSTONE_320
from ethos_hil.harness.virtual.tests.guests import machine, outcome

Assemble = Callable[..., bytes]
SOCS = (CORSTONE_300, CORSTONE_310, CORSTONE_320)
TCM = (Rule.TCM_ECC, Rule.MEMORY_PATTERN)
SET_UP = "ldr r8, =0x59303000\n movs r6, #16\n str r6, [r8, #16]\n movs r6, #1\n str r6, [r8, #8]\n"
BYTE = "movs r6, #0x41\n str r6, [r8]\n"
END = "finish\n"
"""Sends a full stop, which says that the program got here, and parks; of data/start.s, as are the other macros."""
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_keeps_the_rules_or_is_told_which_it_breaks_and_where(
    assemble: Assemble, recorded: Recorded, name: str
) -> None:
    soc, rules, body = PROGRAMS[name]
    elf = assemble(body if END in body else body + "\n" + END, soc)
    recorded.check(f"{body.replace(END, '')}\n-> {outcome(elf, soc, rules=rules)}")


def test_a_breach_comes_before_the_time_limit(assemble: Assemble) -> None:
    elf = assemble("ldr r1, =0x30000000\n ldr r1, [r1]\n park\n")
    assert outcome(elf, CORSTONE_300, rules=TCM, seconds=1.0).startswith("b'', then board-rule: rule tcm-ecc")


# --- Boards that differ in their devices: what a board lacks is an external abort, and its only UART is where it is.

OTHER_UART = Window(0x58203000, 0x1000, 0x48203000)
"""Where some sources have the UART of a Corstone-320."""
UARTS = {"UART 0": UART0, "the other UART": OTHER_UART}
PLACES = (0xFE0, 0xFE4, 0xFE8, 0xFEC, 0xFD0, 0xFF0, 0xFF4, 0xFF8, 0xFFC)
"""Registers that say what a UART is."""
SENT_BYTE = "movs r4, #0x41\n str r4, [r8]\n"


def load_of(uart: int, *addresses: int) -> str:
    """Return a program that sends the words at addresses, and of what is absent the address."""
    loads = "".join(f"ldr r1, ={address}\n ldr r4, [r1]\n send_there\n" for address in addresses)
    return f"set_up {uart}\n {loads} done\n handle_absent\n"


def fitted() -> Iterator[tuple[str, tuple[Soc, Fittings | None, tuple[Rule, ...], str]]]:
    """Return each program's name, the board, what is on it, the rules, and the body."""
    lacking = {
        CORSTONE_300: (0x58103000, 0x48103000),
        CORSTONE_310: (0x58103000,),
        # QEMU has a Corstone-300's NPU at the second one.
        CORSTONE_320: (0x50006000, 0x58102000, OTHER_UART.base, OTHER_UART.base - 0x10000000, OTHER_UART.base + 4),
    }
    for soc, addresses in lacking.items():
        for address in addresses:
            body = load_of(UART0.base, address)
            yield f"{soc.name} lacks 0x{address:x}", (soc, None, (Rule.ABSENT_ABORT,), body)
            if address != 0x58102000:
                yield f"a lenient {soc.name} has 0x{address:x}", (soc, None, (), body)
    for name, uart in UARTS.items():
        other = (OTHER_UART if uart is UART0 else UART0).base + 0xFE0
        for base in uart.bases:
            body = load_of(base, *(base + place for place in PLACES), other)
            yield f"{name} is found at 0x{base:x}", (CORSTONE_320, Fittings((uart,), Adapters.ABORT), (), body)
        slow = Fittings((uart,), full_polls=3)
        patient = f"set_up {uart.base}\n ldr r4, =0x44434241\n send_there\n done\n handle_absent\n"
        yield f"{name} is waited for", (CORSTONE_320, slow, (Rule.UART,), patient)
        # Every byte but the first is lost; STATE says full, and overrun.
        hasty = f"set_up {uart.base}\n {SENT_BYTE * 2} ldr r4, [r8, #4]\n send_there\n done\n handle_absent\n"
        for rules in ((), (Rule.UART,)):
            yield f"{name} is not waited for, rules {len(rules)}", (CORSTONE_320, slow, rules, hasty)
    setting = "movs r6, #{}\n str r6, [r8, #8]\n movs r6, #{}\n str r6, [r8, #0x10]\n"
    for control, divider in ((1, 16), (0, 16), (2, 16), (1, 15)):
        body = f"ldr r8, ={OTHER_UART.base}\n {setting.format(control, divider)} {SENT_BYTE * 2}"
        for rules in ((), (Rule.UART,)):
            name = f"control {control} and divider {divider}, rules {len(rules)}"
            yield name, (CORSTONE_320, Fittings((OTHER_UART,)), rules, f"{body}{setting.format(1, 16)} done\n")


FITTED = dict(fitted())


@pytest.mark.parametrize("name", FITTED)
def test_a_board_has_what_it_is_fitted_with(assemble: Assemble, recorded: Recorded, name: str) -> None:
    soc, fittings, rules, body = FITTED[name]
    recorded.check(outcome(assemble(body, soc), soc, fittings, rules))


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_memory_holds_noise_at_the_start(assemble: Assemble, soc: Soc) -> None:
    """All RAM of QEMU around the image and what follows the image in the DDR; the image itself is whole."""
    elf = assemble("park\n", soc)
    contents = []
    for _ in range(2):
        with machine(elf, soc, rules=[Rule.MEMORY_PATTERN]) as board:
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
    with machine(elf, soc, rules=[Rule.RESET_STATE], seconds=1.0) as board:
        with pytest.raises(TimeoutError):
            board.output()
        assert str(board.where()).startswith("unexpected at 0x")
    if soc is not CORSTONE_300:
        assert outcome(elf, soc).startswith("b'', then crashed: ")
