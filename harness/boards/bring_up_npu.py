"""What a processor and an NPU say they are, and where the NPU's interrupt arrives, as a debug probe sees it.

For the interrupt the processor is halted, so that no one takes it, and the NPU gets a program of one word: its end. A
fault raises the same line, so what the NPU reads in that memory does not matter here; the convolution sees to that.

Sources: Armv8-M Architecture Reference Manual (CPUID, DHCSR, DWT, NVIC), technical reference manuals of Cortex-M55 and
-M85 (part numbers), Arm's core driver, ethosu55_interface.h, ethosu65_interface.h and ethosu85_interface.h (the NPU).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import family_of
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.bring_up_report import StepFinding
from ethos_hil.harness.boards.gdb_server import board_remote
from ethos_hil.harness.boards.loader import NVIC_ICPR, NVIC_WORDS
from ethos_hil.harness.gdb.remote import GdbRemote

CPUID = 0xE000ED00
NPU_ID, NPU_STATUS, NPU_CMD, NPU_RESET, NPU_CONFIG = 0x00, 0x04, 0x08, 0x0C, 0x28
NPU_QBASE, NPU_QBASE_HIGH, NPU_QCONFIG, NPU_QSIZE = 0x10, 0x14, 0x1C, 0x20
"""Offsets in the NPU's registers, which are the same in all families."""
IRQ_RAISED, RESETTING = 1 << 1, 1 << 3
"""Bits of STATUS."""
RUN, CLEAR_IRQ = 1 << 0, 1 << 1
"""Bits of CMD. The others, zero here, would allow the NPU's clock and power to be removed."""
PRIVILEGED = 1 << 0
"""For RESET: the NPU is privileged and secure then."""
STOP = 0xFFFF0000
"""A command stream's last word, NPU_OP_STOP with all bits of its mask."""
NVIC_ISPR = 0xE000E200
"""Pending interrupts, a bit each; writing a bit to ICPR clears it."""
DEMCR, TRCENA = 0xE000EDFC, 1 << 24
DWT_CTRL, CYCCNTENA, NOCYCCNT = 0xE0001000, 1 << 0, 1 << 25
DWT_CYCCNT = 0xE0001004
"""The cycle counter. It has 32 bits, and stands still while a debugger has halted the processor."""

_CORES = {0xD21: "Cortex-M33", 0xD22: "Cortex-M55", 0xD23: "Cortex-M85"}
_ARM = 0x41
_FITS = {"cortex-m55": ("Cortex-M55", "Cortex-M85"), "cortex-m85": ("Cortex-M85",)}
"""The cores that run code that was made for one."""
_SILENT = (0, 0xFFFFFFFF)
_STATES = {0: "C_DEBUGEN", 16: "S_REGRDY", 17: "S_HALT", 18: "S_SLEEP", 19: "S_LOCKUP", 20: "S_SDE"}


@dataclass(frozen=True)
class CpuIdentity:
    """A processor's CPUID.

    Attributes:
        word: the register.
    """

    word: int

    @property
    def core(self) -> str:
        """Its name, "" for one that is not known."""
        return _CORES.get(self.word >> 4 & 0xFFF, "") if self.word >> 24 == _ARM else ""

    def runs(self, cpu: str) -> bool:
        """Return whether it runs code made for `cpu`, as GCC spells it."""
        return self.core in _FITS.get(cpu, (cpu.title(),))

    def __str__(self) -> str:
        name = self.core or "an unknown processor"
        return f"{name} r{self.word >> 20 & 0xF}p{self.word & 0xF} (CPUID 0x{self.word:08x})"


@dataclass(frozen=True)
class NpuIdentity:
    """An NPU's ID and CONFIG.

    Attributes:
        id_word, config_word: the registers.
    """

    id_word: int
    config_word: int

    @property
    def answers(self) -> bool:
        """Whether there is an NPU at all: neither is all zeros or all ones."""
        return self.id_word not in _SILENT and self.config_word not in _SILENT

    @property
    def name(self) -> str:
        """Its configuration, such as "ethos-u55-128"."""
        product = self.config_word >> 28
        family = family_of(product)
        return f"{f'ethos-{family}' if family else f'product {product}'}-{1 << (self.config_word & 0xF)}"

    @property
    def words(self) -> str:
        """The registers, for a message."""
        return f"ID 0x{self.id_word:08x}, CONFIG 0x{self.config_word:08x}"

    def __str__(self) -> str:
        major, minor, patch = self.id_word >> 28, self.id_word >> 20 & 0xFF, self.id_word >> 16 & 0xF
        return f"{self.name}, architecture {major}.{minor}.{patch} ({self.words})"


def halting_state(dhcsr: int) -> str:
    """Return the names of the bits that are set in DHCSR."""
    return " ".join(name for bit, name in _STATES.items() if dhcsr >> bit & 1) or "none"


def check_identity(npus: tuple[str, ...], npu: NpuIdentity, values: dict[str, object]) -> StepFinding:
    """Compare an NPU with names.

    Args:
        npus: names of the NPUs that it may be.
        npu: what it is.
        values: raw values of the step so far.
    """
    values = {**values, "id": f"0x{npu.id_word:08x}", "config": f"0x{npu.config_word:08x}", "npu": npu.name}
    if npu.name not in npus:
        return StepFinding.failed(
            FailureKind.WRONG_BOARD,
            f"the NPU is an {npu}; expected {' or '.join(npus)}",
            "is it the right board, and the right FPGA image? If so, correct npus in its file",
            values,
        )
    remedy = f'state it in a file of yours: npus = ["{npu.name}"]' if len(npus) > 1 else ""
    return StepFinding(str(npu), values, remedy=remedy)


_NPU_SECONDS = 1.0
"""For a reset, and for a program of one word: both take microseconds."""
_EXTERNAL_PORT = 2
"""The selector in QCONFIG that leads to all memories, as in firmware/npu/driver.cc."""


def interrupt(board: Board) -> StepFinding:
    """Let the NPU raise its interrupt while the firmware, which gave it clocks and power, is halted."""
    with board_remote(board.loading) as remote:
        remote.halt()
        try:
            status, before, after = _look(remote, board)
        finally:
            if remote.usable:
                with contextlib.suppress(TargetError):
                    remote.resume()
                    remote.detach()
    return check_interrupt(board.soc.npu_irq, status, before, after)


def check_interrupt(number: int, status: int, before: set[int], after: set[int]) -> StepFinding:
    """Compare what was seen with the number of the board's file.

    Args:
        number: the file's.
        status: the NPU's STATUS in the end.
        before, after: numbers of the interrupts that were pending.
    """
    values: dict[str, object] = {
        "status": f"0x{status:08x}",
        "stated": number,
        "pending_before": sorted(before),
        "pending_after": sorted(after),
    }
    came = sorted(after - before)
    if not status & IRQ_RAISED:
        return StepFinding.failed(
            FailureKind.TIMEOUT,
            f"the NPU does not end a program of one word within {_NPU_SECONDS:g} s: STATUS 0x{status:08x}",
            "switch the board off and on; does the NPU have its clock, and does it reach the package's memory?",
            values,
        )
    if number in came:
        return StepFinding(f"the NPU's interrupt arrives as number {number}: STATUS 0x{status:08x}", values)
    if came:
        others = " and ".join(map(str, came))
        return StepFinding.failed(
            FailureKind.WRONG_BOARD,
            f"the NPU raises its interrupt, and number {others} becomes pending; the file says {number}",
            f"correct soc.npu.irq to {came[0]}",
            values,
        )
    already = ", which was pending before" if number in before else ""
    return StepFinding.failed(
        FailureKind.WRONG_BOARD,
        f"the NPU raises its interrupt, and none arrives at the processor; the file says number {number}{already}",
        "correct soc.npu.irq, or what routes it to the processor in the firmware's port",
        values,
    )


def _look(remote: GdbRemote, board: Board) -> tuple[int, set[int], set[int]]:
    """Return the NPU's STATUS after a program, and the interrupts that were pending before and after it."""
    base, stream = board.soc.npu_registers.base, board.soc.firmware.package.base
    remote.write_word(base + NPU_RESET, PRIVILEGED)
    _await(remote, base, RESETTING, 0)
    before = _pending(remote)
    remote.write_word(stream, STOP)
    for register, value in ((NPU_QCONFIG, _EXTERNAL_PORT), (NPU_QBASE, stream), (NPU_QBASE_HIGH, 0), (NPU_QSIZE, 4)):
        remote.write_word(base + register, value)
    remote.write_word(base + NPU_CMD, RUN)
    status = _await(remote, base, IRQ_RAISED, IRQ_RAISED)
    after = _pending(remote)
    remote.write_word(base + NPU_CMD, CLEAR_IRQ)
    remote.write_word(base + NPU_RESET, PRIVILEGED)  # also ends a program that does not end
    for number in after - before:
        remote.write_word(NVIC_ICPR + number // 32 * 4, 1 << number % 32)
    return status, before, after


def _await(remote: GdbRemote, base: int, mask: int, wanted: int) -> int:
    """Return the NPU's STATUS, once some bits of it are as wanted or the time is up."""
    deadline = Deadline(_NPU_SECONDS)
    while (status := remote.read_word(base + NPU_STATUS)) & mask != wanted and not deadline.passed:
        pass
    return status


def _pending(remote: GdbRemote) -> set[int]:
    words = [remote.read_word(NVIC_ISPR + 4 * index) for index in range(NVIC_WORDS)]
    return {32 * index + bit for index, word in enumerate(words) for bit in range(32) if word >> bit & 1}
