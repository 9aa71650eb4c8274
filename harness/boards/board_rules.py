"""What a board's values have to be to one another: memories, the firmware's places, clocks and the loader's words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.boards.board import Board, Server
from ethos_hil.harness.boards.board_schema import PLACES
from ethos_hil.harness.socs.soc import KIB, Soc, Window

LEAST_PACKAGE = 64 * KIB
"""Bytes of the smallest window for programs that is of any use."""
MOST_DEVIATION = 0.025
"""Of a baud rate. The stop bit of ten is sampled in its middle, 9.5 bits after the start, so the two ends may differ by
half a bit in 9.5, 5.3 %; each may have half of that, less what their sampling in sixteenths costs."""
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_KNOWN = ("port", "serial", "device")
_ADDRESS = re.compile(r"[^\s:]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")


@dataclass(frozen=True)
class Complaint:
    """What is wrong with a board.

    Attributes:
        key: the place in its file.
        message: what was found, and what was expected.
        hint: what to do; None for a look into the document.
    """

    key: str
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class BaudRates:
    """What a UART can make of its clock.

    Attributes:
        step: cycles of the clock by which the length of a bit can be set.
        least: cycles of the shortest bit.
    """

    step: float
    least: float

    def deviation(self, clock_hz: int, baud: int) -> float:
        """Return by how much the nearest rate differs from `baud`, as a part of it."""
        cycles = max(round(clock_hz / baud / self.step) * self.step, self.least)
        return abs(clock_hz / cycles / baud - 1)


_RATES = {
    # Arm Cortex-M System Design Kit TRM, "APB UART": a divider of at least 16.
    "cmsdk": BaudRates(1, 16),
    # PL011 TRM, "Baud rate": sixteen samples a bit, a divider with six bits behind the point.
    "pl011": BaudRates(16 / 64, 16),
    "ns16550": BaudRates(16, 16),
    # OpenNuvoton/M55M1BSP, Library/StdDriver/inc/uart.h: in mode 2 a bit has BRD + 2 cycles; the examples of uart_reg.h
    # start with a BRD of 8.
    "numicro": BaudRates(1, 10),
    # renesas/fsp, r_sci_b_uart.c: with BGDM and ABCS, eight cycles times a divider.
    "sci": BaudRates(8, 8),
}
FRACTION_BITS = "FRACTION_BITS"
"""The option of an ns16550 that has a divider with so many bits behind the point, as DesignWare's may."""


def check_board(board: Board) -> Iterator[Complaint]:
    """Yield what is wrong with a board, the worst first."""
    yield from _memories(board.soc)
    yield from _devices(board.soc)
    yield from _places(board.soc)
    yield from _vectors(board.soc)
    yield from _driver(board)
    yield from _rates(board)
    yield from _loading(board)
    yield from _words(board)


def _range(window: Window, base: int | None = None) -> str:
    first = window.base if base is None else base
    return f"0x{first:08x} to 0x{first + window.size - 1:08x}"


def _memories(soc: Soc) -> Iterator[Complaint]:
    spans = ((base, base + memory.size, memory) for memory in soc.memories for base in memory.bases)
    ranges = sorted(spans, key=lambda span: span[:2])
    for (first, end, memory), (begin, _, other) in itertools.pairwise(ranges):
        if begin < end:
            yield Complaint(
                f"soc.memories.{other.name}.base",
                f"found {_range(other, begin)}, which overlaps {memory.name}, {_range(memory, first)}",
                "memories and their aliases lie apart; one memory under two addresses has a base and an alias",
            )
    for memory in soc.memories:
        if any(base + memory.size > 1 << 32 for base in memory.bases):
            yield Complaint(
                f"soc.memories.{memory.name}.size", f"found 0x{memory.size:08x}, which runs past 0xffffffff"
            )


def _devices(soc: Soc) -> Iterator[Complaint]:
    for key, window in (("soc.npu", soc.npu_registers), ("soc.uart", soc.uarts[0])):
        for memory in soc.memories:
            if any(_overlap(base, window.size, at, memory.size) for base in window.bases for at in memory.bases):
                yield Complaint(f"{key}.base", f"found {_range(window)}, which is in the memory {memory.name}")
        if window.base % 4:
            yield Complaint(f"{key}.base", f"found 0x{window.base:08x}; expected a multiple of 4")
    if soc.secure_bit & (soc.secure_bit - 1):
        yield Complaint("soc.secure_bit", f"found 0x{soc.secure_bit:08x}; expected one bit, or 0")


def _overlap(base: int, size: int, other: int, length: int) -> bool:
    return base < other + length and other < base + size


def _places(soc: Soc) -> Iterator[Complaint]:
    board = soc.firmware
    for part in ("data", "stack", "pool"):
        memory = soc.memory(getattr(board, part))
        if memory.read_only:
            yield Complaint(
                f"soc.firmware.{part}", f"found {memory.name}, which is read-only; expected one to write to"
            )
    if not soc.memory(board.pool).npu:
        yield _complain_of_reach("soc.firmware.pool", board.pool, soc)
    package = board.package
    home = next((memory for memory in soc.memories if memory.holds(package.base, package.size)), None)
    key = "soc.firmware.package.base"
    if home is None:
        yield Complaint(
            key, f"found {_range(package)}, which is in no memory; expected a part of one that the NPU reaches"
        )
    elif not home.npu:
        yield _complain_of_reach(key, home.name, soc)
    elif home.name in [getattr(board, part) for part in PLACES]:
        part = next(part for part in PLACES if getattr(board, part) == home.name)
        yield Complaint(
            key,
            f"found {_range(package)} in {home.name}, where soc.firmware.{part} is too",
            "give the package a memory of its own: one memory may be described as two, one behind the other",
        )
    if package.base % 16:
        yield Complaint(key, f"found 0x{package.base:08x}; expected a multiple of 16")
    if package.size < LEAST_PACKAGE:
        yield Complaint("soc.firmware.package.size", f"found {package.size} bytes; expected {LEAST_PACKAGE} at least")


def _complain_of_reach(key: str, name: str, soc: Soc) -> Complaint:
    reached = ", ".join(memory.name for memory in soc.memories if memory.npu) or "none"
    return Complaint(key, f"found {name}, which the NPU does not reach; it reaches {reached}")


def _vectors(soc: Soc) -> Iterator[Complaint]:
    """Armv8-M Architecture Reference Manual, VTOR: the table is aligned to its size, rounded up to a power of two."""
    if soc.npu_irq >= soc.interrupts:
        yield Complaint(
            "soc.npu.irq", f"found {soc.npu_irq}; expected less than soc.interrupts, which is {soc.interrupts}"
        )
    alignment = max(1 << (4 * (16 + soc.interrupts) - 1).bit_length(), 128)
    if soc.boot % alignment:
        yield Complaint(
            f"soc.memories.{soc.firmware.boot}.base",
            f"found 0x{soc.boot:08x}; expected a multiple of 0x{alignment:x}, as the vector table of {soc.interrupts} "
            "interrupts starts there",
        )


def _driver(board: Board) -> Iterator[Complaint]:
    driver = board.soc.firmware.driver
    for index, name in enumerate(board.npus):
        if EthosU.parse(name).family.driver != driver:
            yield Complaint(
                "soc.firmware.driver", f"found {driver!r}, which does not drive npus[{index + 1}], an {name}"
            )


def _rates(board: Board) -> Iterator[Complaint]:
    link = board.link
    rates = _uart_rates(board.soc)
    if link.fastest_baud < link.baud:
        yield Complaint("link.fastest_baud", f"found {link.fastest_baud}; expected link.baud at least, {link.baud}")
    for key, baud in (("link.baud", link.baud), ("link.fastest_baud", link.fastest_baud)):
        deviation = rates.deviation(board.soc.peripheral_hz, baud)
        if deviation > MOST_DEVIATION:
            yield Complaint(
                key,
                f"found {baud}; a {board.soc.uart} UART with a clock of {board.soc.peripheral_hz} Hz misses it by "
                f"{deviation:.1%}; expected {MOST_DEVIATION:.1%} at most",
                "take another rate, or correct soc.peripheral_hz",
            )


def _uart_rates(soc: Soc) -> BaudRates:
    rates = _RATES[soc.uart]
    return BaudRates(rates.step / (1 << dict(soc.uart_options).get(FRACTION_BITS, 0)), rates.least)


def _loading(board: Board) -> Iterator[Complaint]:
    loading = board.loading
    if loading.server is Server.RUNNING:
        if loading.address is None:
            yield Complaint("loading.address", "not given; expected host:port of the server that runs")
        if loading.dialect is None:
            yield Complaint("loading.dialect", "not given; expected whose commands the running server knows")
    elif loading.address is not None:
        yield Complaint(
            "loading.address", f'found {loading.address!r}, and loading.server is "{loading.server}", not "running"'
        )
    elif loading.server is not Server.NONE:
        yield from _command(loading.command)
    if loading.address is not None and not _ADDRESS.fullmatch(loading.address):
        yield Complaint("loading.address", f'found {loading.address!r}; expected "host:port"')


def _command(command: tuple[str, ...]) -> Iterator[Complaint]:
    for word in command:
        for name in _PLACEHOLDER.findall(word):
            if name not in _KNOWN:
                known = ", ".join(f"{{{field}}}" for field in _KNOWN)
                yield Complaint("loading.command", f"found {word!r}; there are {known}")
    if not any("{port}" in word for word in command):
        yield Complaint("loading.command", "found no {port}; expected it, as each run takes a free one")


def _words(board: Board) -> Iterator[Complaint]:
    if board.loading.server is Server.NONE and (board.reset.commands or board.reset.before or board.reset.after):
        yield Complaint("reset", 'found words for a reset, and loading.server is "none", which sends none')
    for when, writes in (("before", board.reset.before), ("after", board.reset.after)):
        for index, write in enumerate(writes):
            if write.address % 4:
                yield Complaint(
                    f"reset.{when}",
                    f"found address 0x{write.address:08x} in entry {index + 1}; expected a multiple of 4",
                )
    if board.power is not None and not board.power.cycle and not (board.power.on and board.power.off):
        yield Complaint("power", "found neither cycle nor both of on and off; expected one of these")
