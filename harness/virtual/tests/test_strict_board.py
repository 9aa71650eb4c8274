"""The strict board's rules about the processor: programs that break one, each beside one that just does not."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.rules import Rule
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, CORSTONE_320
from ethos_hil.harness.virtual.tests.test_fittings import CORSTONE_310, error_of, machine

Assemble = Callable[..., bytes]
SOCS = (CORSTONE_300, CORSTONE_310, CORSTONE_320)
TCM = frozenset({Rule.TCM_ECC, Rule.MEMORY_PATTERN})
DONE = 0x2E
# Sends DONE, which says that the program got here, and parks.
END = f"""
    ldr r8, =0x59303000
    movs r6, #16
    str r6, [r8, #16]
    movs r6, #1
    str r6, [r8, #8]
    ldr r6, [r8, #4]
    movs r6, #{DONE}
    str r6, [r8]
park:
    b park
    .ltorg
"""
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


def check(
    elf: bytes, soc: Soc, rules: Collection[Rule], broken: Rule | None, message: str = "", function: str = "reset"
) -> None:
    """Run a program. It keeps the rules, or the error names the one that it breaks, and where."""
    if broken is None:
        with machine(elf, soc, rules=frozenset(rules)) as board:
            assert board.output() == bytes([DONE])
            board.check_rules()
        return
    error = error_of(machine(elf, soc, rules=frozenset(rules)))
    assert (error.kind, error.message.split(":")[0]) == ("board-rule", f"rule {broken} of the strict board"), error
    assert message in error.message
    assert f", in {function} at 0x" in error.message
    assert "guest.s:" in error.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ldr r1, =0x30001000\n str r1, [r1]\n ldr r2, [r1]\n ldrb r2, [r1, #3]\n strb r2, [r1, #1]", ""),
        ("ldr r1, =0x30001000\n str r1, [r1]\n ldr r1, =0x20001000\n ldr r2, [r1]", ""),  # the same word
        ("ldr r1, =0x30001000\n push {r1}\n pop {r2}\n strd r1, r2, [r1]\n ldrd r1, r2, [r1]", ""),
        ("ldr r1, =0x31001000\n ldr r2, [r1]\n strb r2, [r1, #9]", ""),  # SRAM, not a TCM
        ("ldr r1, =0x30001000\n ldr r2, [r1]", "4 bytes loaded from 0x30001000"),
        ("ldr r1, =0x20001000\n ldr r2, [r1]", "4 bytes loaded from 0x20001000"),
        ("ldr r1, =0x30001000\n ldrb r2, [r1, #2]", "1 byte loaded from 0x30001002"),
        ("ldr r1, =0x30001000\n strb r1, [r1, #2]", "1 byte stored to 0x30001002 is a part of a word"),
        ("ldr r1, =0x30001000\n strh r1, [r1]", "2 bytes stored to 0x30001000 is a part of a word"),
        ("ldr r1, =0x30001000\n str r1, [r1, #2]", "4 bytes stored to 0x30001002 is a part of a word"),
        ("ldr r1, =0x30001000\n str r1, [r1]\n ldrd r2, r3, [r1]", "4 bytes loaded from 0x30001004"),
        ("sub sp, #8\n pop {r2}", "4 bytes loaded from 0x3007fff8"),
        ("ldr r1, =0x10007F00\n ldr r2, [r1]", "4 bytes loaded from 0x10007f00"),
        ("ldr r1, =0x10007F00\n strb r2, [r1]", "1 byte stored to 0x10007f00 is a part of a word"),
    ],
)
@pytest.mark.parametrize("soc", [CORSTONE_300, CORSTONE_320])
def test_a_tcm_word_is_written_before_it_is_read(assemble: Assemble, soc: Soc, body: str, message: str) -> None:
    body = body.replace("sub sp", "ldr sp, =0x30008000\n sub sp").replace("push", "ldr sp, =0x30008000\n push")
    message = message.replace("0x3007fff8", "0x30007ff8")
    check(assemble(body + END, soc), soc, TCM, Rule.TCM_ECC if message else None, message)


def test_what_an_exception_pushes_is_written(assemble: Assemble) -> None:
    """A handler reads the stacked program counter, which QEMU writes past its plug-ins, and changes one byte of it."""
    body = f"""
    ldr r1, =0xE000ED08
    ldr r2, =0x31000000
    ldr r3, =called
    str r3, [r2, #44]        @ SVCall
    str r2, [r1]
    dsb
    svc #0
    {END}
    .thumb_func
    .type called, %function
called:
    ldr r1, [sp, #24]
    strb r1, [sp, #24]
    ldrb r1, [sp, #1]
    bx lr
"""
    check(assemble(body), CORSTONE_300, TCM, None)


def test_only_what_an_exception_pushes_is_written(assemble: Assemble) -> None:
    """The word below the stacked registers is not."""
    body = f"""
    ldr r1, =0xE000ED08
    ldr r2, =0x31000000
    ldr r3, =called
    str r3, [r2, #44]
    str r2, [r1]
    dsb
    svc #0
    {END}
    .thumb_func
    .type called, %function
called:
    ldr r1, [sp, #-4]
    bx lr
"""
    check(assemble(body), CORSTONE_300, TCM, Rule.TCM_ECC, "4 bytes loaded from 0x3007ffdc", "called")


SETTING = "ldr r8, =0x59303000\n movs r6, #16\n str r6, [r8, #16]\n movs r6, #1\n str r6, [r8, #8]\n"
BYTE = f"movs r6, #{DONE}\n str r6, [r8]\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (SETTING + BYTE + "b park\n", ""),  # nothing was sent before the first byte
        (SETTING + BYTE + BYTE, "STATE was not read since the last one"),
        (SETTING.replace("#16\n str", "#16\n @ str") + BYTE, "before it was set up"),
        (SETTING.replace("str r6, [r8, #8]", "") + BYTE, "before it was set up"),
    ],
)
def test_qemus_own_uart_is_set_up_and_asked(assemble: Assemble, body: str, message: str) -> None:
    check(assemble(body + END), CORSTONE_300, {Rule.UART}, Rule.UART if message else None, message)


def test_the_divider_of_qemus_own_uart_is_valid(assemble: Assemble) -> None:
    """QEMU sends with any divider. It is looked at when the program first uses the NPU."""
    body = SETTING.replace("#16\n", "#15\n", 1) + BYTE + "ldr r1, [r0, #0x28]\n"
    error = error_of(machine(assemble(body + END), CORSTONE_300, rules=frozenset({Rule.UART})))
    assert error.message == "rule uart of the strict board: BAUDDIV of the UART is 15; it sends from 16 on"
    check(assemble(body.replace("#15", "#16").replace(BYTE, "") + END), CORSTONE_300, {Rule.UART}, None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ldr r1, =0x59303000\n ldr r2, [r1]\n ldrb r2, [r1, #3]\n ldrd r2, r3, [r1]\n ldm r1, {r2, r3}", ""),
        ("ldr r1, =0xA0000000\n str r1, [r1]\n ldrh r2, [r1, #2]", ""),
        ("ldr r1, =0x60000000\n ldr r2, [r1, #1]\n ldrex r2, [r1]\n strex r3, r2, [r1]", ""),  # Normal memory
        ("ldr r1, =0xA0000000\n ldr r2, [r1, #1]", "4 bytes loaded from 0xa0000001 is not aligned"),
        ("ldr r1, =0xA0000000\n strh r2, [r1, #3]", "2 bytes stored to 0xa0000003 is not aligned"),
        ("ldr r1, =0x59303000\n ldrh r2, [r1, #1]", "2 bytes loaded from 0x59303001 is not aligned"),
        ("ldr r1, =0xA0000000\n ldrex r2, [r1]", "4 bytes loaded from 0xa0000000 is exclusive"),
        ("ldr r1, =0xA0000000\n ldrexb r2, [r1]", "1 byte loaded from 0xa0000000 is exclusive"),
        ("ldr r1, =0xA0000000\n ldaexh r2, [r1]", "2 bytes loaded from 0xa0000000 is exclusive"),
        ("ldr r1, =0xA0000000\n ldaex r2, [r1]", "4 bytes loaded from 0xa0000000 is exclusive"),
        (
            "ldr r1, =0x60000000\n ldr r3, =0xA0000000\n ldrex r2, [r1]\n mov r1, r3\n strex r4, r2, [r1]\n"
            "ldr r1, =0x60000000\n ldrexh r2, [r3]",
            "is exclusive",
        ),
        (
            ENABLE_FLOATING_POINT + "ldr r1, =0xA0000000\n vldr d0, [r1]",
            "8 bytes loaded from 0xa0000000 is more than a word",
        ),
        (
            ENABLE_FLOATING_POINT + "ldr r1, =0xA0000001\n .arch_extension mve\n vstrb.8 q0, [r1]\n vldrh.u16 q0, [r1]",
            "is not aligned",
        ),
    ],
)
def test_device_memory_is_accessed_aligned_and_by_words(assemble: Assemble, body: str, message: str) -> None:
    check(assemble(body + END), CORSTONE_300, {Rule.BUS}, Rule.BUS if message else None, message)


NONE, READ_ONLY = "where this system has no", "where this system's memory is"


@pytest.mark.parametrize(
    ("soc", "accesses", "why"),
    [
        (CORSTONE_300, (("str", 0x1107FFFC),), ""),
        (CORSTONE_300, (("str", 0x110FFFFC), ("ldr", 0x21000000)), ""),
        (CORSTONE_300, (("str", 0x11100000),), NONE),
        (CORSTONE_300, (("ldr", 0x31200000),), NONE),
        (CORSTONE_300, (("ldr", 0x21200000),), NONE),
        (CORSTONE_310, (("str", 0x10007FFC), ("str", 0x111FFFFC)), ""),
        (CORSTONE_310, (("ldr", 0x10008000),), NONE),
        (CORSTONE_310, (("str", 0x30008000),), NONE),
        (CORSTONE_320, (("str", 0x313FFFFC), ("ldr", 0x1101FFFC)), ""),
        (CORSTONE_320, (("str", 0x00007FFC), ("str", 0x20007FFC)), ""),
        (CORSTONE_320, (("ldr", 0x11020000),), NONE),
        (CORSTONE_320, (("str", 0x1101FFFC),), READ_ONLY),
        (CORSTONE_320, (("strb", 0x01010000),), READ_ONLY),
        (CORSTONE_320, (("ldr", 0x10008000),), NONE),
    ],
)
def test_memories_are_those_of_the_part(
    assemble: Assemble, soc: Soc, accesses: tuple[tuple[str, int], ...], why: str
) -> None:
    body = "".join(f"ldr r1, ={address:#x}\n {instruction} r1, [r1]\n" for instruction, address in accesses)
    instruction, address = accesses[-1]
    access = {"ldr": "4 bytes loaded from", "str": "4 bytes stored to", "strb": "1 byte stored to"}[instruction]
    rules = {Rule.PART_MEMORIES}
    message = f"{access} 0x{address:08x}, {why}" if why else ""
    check(assemble(body + END, soc), soc, rules, Rule.PART_MEMORIES if why else None, message)


def test_code_is_in_memories_of_the_part(assemble: Assemble) -> None:
    """A function that is copied behind the end of the Corstone-310's ITCM, by its alias, and called."""
    body = "ldr r1, =0x10008000\n ldr r2, =0x4770\n {store}\n adds r1, #1\n blx r1\n"
    there = assemble(body.format(store="str r2, [r1]").replace("0x10008000", "0x10007000") + END, CORSTONE_310)
    check(there, CORSTONE_310, {Rule.PART_MEMORIES}, None)
    # QEMU's memory is zero there, `movs r0, r0`, and then the end of its ITCM.
    beyond = assemble(body.format(store="nop") + END, CORSTONE_310)
    error = error_of(machine(beyond, CORSTONE_310, rules=frozenset({Rule.PART_MEMORIES})))
    assert error.message.startswith("rule part-memories of the strict board: 0x10008000 is executed, where this system")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (ENABLE_FLOATING_POINT + "vmov s0, r1\n vmov r2, s0\n vmrs r1, fpscr\n", ""),
        (ENABLE_FLOATING_POINT + ".arch_extension mve\n vadd.i32 q0, q0, q0\n vldrw.u32 q0, [r1]\n", ""),
        ("vmov s0, r1\n", "a floating-point or MVE instruction is executed before"),
        (ENABLE_FLOATING_POINT.replace("ldr r1, =0xE001E300", "ldr r1, =0x31000000") + "vmov s0, r1\n", "CPDLPSTATE"),
        (ENABLE_FLOATING_POINT.replace("ldr r1, =0xE000ED88", "ldr r1, =0x31000000") + "vmov s0, r1\n", "CPACR"),
        (".arch_extension mve\n vadd.i32 q0, q0, q0\n", "MVE"),
        (".arch_extension mve\n vldrb.u8 q0, [r1]\n", "MVE"),
        (".arch_extension mve\n vmov q0[2], q0[0], r1, r2\n", "MVE"),
        (".arch_extension mve\n vctp.32 r1\n", "MVE"),
        ("vmrs r1, fpscr\n", "floating-point"),
        ("vpush {s0}\n", "floating-point"),
    ],
)
def test_floating_point_is_off_at_the_start(assemble: Assemble, body: str, message: str) -> None:
    check(assemble(body + END), CORSTONE_300, {Rule.RESET_STATE}, Rule.RESET_STATE if message else None, message)


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


def test_a_breach_comes_before_the_crash_that_it_causes(assemble: Assemble) -> None:
    """A store to a read-only memory, and then a lockup."""
    body = "ldr r1, =0x11010000\n str r1, [r1]\n ldr r1, =0xE000ED08\n ldr r2, =0x20000000\n str r2, [r1]\n udf #0\n"
    elf = assemble(body + END, CORSTONE_320)
    check(elf, CORSTONE_320, {Rule.PART_MEMORIES}, Rule.PART_MEMORIES, "4 bytes stored to 0x11010000")


def test_a_breach_comes_before_the_time_limit(assemble: Assemble) -> None:
    elf = assemble("ldr r1, =0x30000000\n ldr r1, [r1]\n park:\n b park\n .ltorg\n")
    board = machine(elf, CORSTONE_300, rules=TCM, seconds=1.0)
    with board, pytest.raises(TargetError, match="rule tcm-ecc"):
        board.output()


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
