"""Boards that differ in their devices: what a board lacks is an external abort, and its only UART is where it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.socs.soc import Soc, Window
from ethos_hil.harness.virtual.board import new_board
from ethos_hil.harness.virtual.fittings import Adapters, Fittings
from ethos_hil.harness.virtual.machine import Machine
from ethos_hil.harness.virtual.mps3_an547 import UART0
from ethos_hil.harness.virtual.rules import Rule
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, CORSTONE_320
from ethos_hil.harness.virtual.tests.test_machine import PARK, words

Assemble = Callable[..., bytes]
CORSTONE_310 = find_soc("corstone-310")
NPUS = {"corstone-300": "ethos-u55-128", "corstone-310": "ethos-u55-128", "corstone-320": "ethos-u85-256"}
OTHER_UART = Window(0x58203000, 0x1000, 0x48203000)
"""Where some sources have the UART of a Corstone-320."""
ADAPTERS_300, ADAPTERS_320 = 0x58103000, 0x50006000

# r8 = the UART. Makes faults BusFaults of their own, with `absent` as their handler.
SET_UP = """
    ldr r1, =0xE000ED08
    ldr r2, =0x31000000
    ldr r3, =absent
    mov r4, #0
1:  str r3, [r2, r4, lsl #2]
    adds r4, #1
    cmp r4, #16
    bne 1b
    str r2, [r1]
    ldr r1, =0xE000ED24
    mov r2, #0x20000
    str r2, [r1]
    dsb
    isb
    ldr r8, ={uart}
    movs r6, #16
    str r6, [r8, #0x10]
    movs r6, #1
    str r6, [r8, #8]
"""
# Sends r4 as four bytes.
SEND = """
    movs r7, #4
1:  ldr r6, [r8, #4]
    lsls r6, r6, #31
    bmi 1b
    str r4, [r8]
    lsrs r4, r4, #8
    subs r7, #1
    bne 1b
"""
ABSENT = 0x41424F52
# Sends ABSENT and the address of the fault. r9 = where to go on.
HANDLER = f"""
    .thumb_func
    .type absent, %function
absent:
    ldr r4, ={ABSENT}
    {SEND}
    ldr r1, =0xE000ED38
    ldr r4, [r1]
    {SEND}
    b absent_end
absent_end:
    b absent_end
    .ltorg
"""


def load_of(address: int, uart: int = UART0.base) -> str:
    """A program that sends the word at an address, or ABSENT and the fault's address."""
    return SET_UP.format(uart=uart) + f"ldr r1, ={address}\n ldr r4, [r1]\n {SEND} {PARK} {HANDLER}"


def machine(
    elf: bytes,
    soc: Soc,
    fittings: Fittings | None = None,
    rules: frozenset[Rule] = frozenset(),
    seconds: float = 10.0,
) -> Machine:
    board = new_board(soc, elf, rules=rules, fittings=fittings)
    return Machine(board, EthosU.parse(NPUS[soc.name]), Deadline(seconds))


def error_of(board: Machine) -> TargetError:
    """Run to the error that ends it."""
    with board:
        while True:
            try:
                board.output()
            except TargetError as error:
                return error


def sent(elf: bytes, count: int, soc: Soc, fittings: Fittings | None = None, *rules: Rule) -> list[int]:
    with machine(elf, soc, fittings, frozenset(rules)) as board:
        return words(board, count)


@pytest.mark.parametrize(
    ("soc", "address"),
    [
        (CORSTONE_300, ADAPTERS_300),
        (CORSTONE_300, ADAPTERS_300 - 0x10000000),
        (CORSTONE_310, ADAPTERS_300),
        (CORSTONE_320, ADAPTERS_320),
        (CORSTONE_320, 0x58102000),  # QEMU has a Corstone-300's NPU there
        (CORSTONE_320, OTHER_UART.base),
        (CORSTONE_320, OTHER_UART.base - 0x10000000),
    ],
)
def test_what_a_strict_board_lacks_is_a_bus_fault(assemble: Assemble, soc: Soc, address: int) -> None:
    elf = assemble(load_of(address), soc)
    assert sent(elf, 2, soc, None, Rule.ABSENT_ABORT) == [ABSENT, address]


@pytest.mark.parametrize(
    ("soc", "address"),
    [(CORSTONE_300, ADAPTERS_300), (CORSTONE_320, ADAPTERS_320), (CORSTONE_320, OTHER_UART.base + 4)],
)
def test_a_lenient_board_answers_with_zero(assemble: Assemble, soc: Soc, address: int) -> None:
    assert sent(assemble(load_of(address), soc), 1, soc) == [0]


@pytest.mark.parametrize("uart", [UART0, OTHER_UART])
@pytest.mark.parametrize("alias", [False, True])
def test_the_uart_can_be_found_by_its_identity(assemble: Assemble, uart: Window, alias: bool) -> None:
    """At its two addresses, and nothing answers where the other one would be."""
    assert uart.alias is not None
    base = uart.alias if alias else uart.base
    places = [base + at for at in (0xFE0, 0xFE4, 0xFE8, 0xFEC, 0xFD0, 0xFF0, 0xFF4, 0xFF8, 0xFFC)]
    other = (OTHER_UART if uart is UART0 else UART0).base + 0xFE0
    body = SET_UP.format(uart=base)
    body += f"ldr r11, =places\n 2: ldr r1, [r11], #4\n ldr r4, [r1]\n {SEND} b 2b\n .ltorg\n"
    body += f".balign 4\nplaces: .word {', '.join(map(str, [*places, other]))}\n"
    values = sent(assemble(body + HANDLER, CORSTONE_320), 11, CORSTONE_320, Fittings((uart,), Adapters.ABORT))
    assert values == [0x21, 0xB8, 0x1B, 0, 4, 0x0D, 0xF0, 0x05, 0xB1, ABSENT, other]


ENABLE = "movs r6, #{control}\n str r6, [r8, #8]\n movs r6, #{divider}\n str r6, [r8, #0x10]\n"
BYTE = "movs r4, #0x41\n str r4, [r8]\n"


@pytest.mark.parametrize(
    ("body", "expected", "message"),
    [
        (ENABLE.format(control=1, divider=16) + BYTE + BYTE, b"AA", None),
        (ENABLE.format(control=0, divider=16) + BYTE, b"", "while its transmitter is off"),
        (ENABLE.format(control=2, divider=16) + BYTE, b"", "while its transmitter is off"),
        (ENABLE.format(control=1, divider=15) + BYTE, b"", "BAUDDIV 15"),
    ],
)
def test_a_uart_that_is_not_set_up_sends_nothing(
    assemble: Assemble, body: str, expected: bytes, message: str | None
) -> None:
    end = ENABLE.format(control=1, divider=16) + "movs r4, #0x2E\n str r4, [r8]\n" + PARK
    elf = assemble(f"ldr r8, ={OTHER_UART.base}\n" + body + end, CORSTONE_320)
    fittings = Fittings((OTHER_UART,))
    with machine(elf, CORSTONE_320, fittings) as board:
        data = b""
        while not data.endswith(b"."):
            data += board.output()
    assert data == expected + b"."
    strict = machine(elf, CORSTONE_320, fittings, frozenset({Rule.UART}))
    if message is None:
        with strict:
            assert strict.output() == b"A"
    else:
        error = error_of(strict)
        assert error.kind == "board-rule"
        assert error.message.startswith("rule uart of the strict board: ")
        assert message in error.message
        assert ", in reset at 0x" in error.message


@pytest.mark.parametrize("uart", [UART0, OTHER_UART])
def test_a_byte_takes_time_and_the_next_one_waits_for_it(assemble: Assemble, uart: Window) -> None:
    """A program that looks at STATE sends all; one that does not loses every byte but the first."""
    fittings = Fittings((uart,), full_polls=3)
    patient = assemble(SET_UP.format(uart=uart.base) + f"ldr r4, =0x44434241\n {SEND} {PARK} {HANDLER}", CORSTONE_320)
    assert sent(patient, 1, CORSTONE_320, fittings, Rule.UART) == [0x44434241]
    hasty = SET_UP.format(uart=uart.base) + BYTE + BYTE + f"ldr r4, [r8, #4]\n mov r5, r4\n {SEND} {PARK} {HANDLER}"
    elf = assemble(hasty, CORSTONE_320)
    with machine(elf, CORSTONE_320, fittings) as board:
        data = b""
        while len(data) < 5:
            data += board.output()
    assert data == b"A\x05\0\0\0"  # full, and overrun
    error = error_of(machine(elf, CORSTONE_320, fittings, frozenset({Rule.UART})))
    assert error.message.startswith("rule uart of the strict board: a byte is written to the UART before the last one")
    assert ", in reset at 0x" in error.message
