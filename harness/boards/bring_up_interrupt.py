"""The step of `ethos-hil boards bring-up` that looks where the NPU's interrupt arrives.

The processor is halted, so that nobody takes the interrupt, and the NPU gets a program of one word: its end. A fault
raises the same line, so what the NPU reads in that memory does not matter here; the convolution sees to that.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.bring_up_registers import (
    CLEAR_IRQ,
    IRQ_RAISED,
    NPU_CMD,
    NPU_QBASE,
    NPU_QBASE_HIGH,
    NPU_QCONFIG,
    NPU_QSIZE,
    NPU_RESET,
    NPU_STATUS,
    NVIC_ICPR,
    NVIC_ISPR,
    NVIC_WORDS,
    PRIVILEGED,
    RESETTING,
    RUN,
    STOP,
)
from ethos_hil.harness.boards.bring_up_step import StepFinding
from ethos_hil.harness.boards.gdb_server import board_remote
from ethos_hil.harness.boards.rsp import GdbRemote

_NPU_SECONDS = 1.0
"""For a reset, and for a program of one word: both take microseconds."""
_EXTERNAL_PORT = 2
"""The selector in QCONFIG that leads to all memories, as in firmware/npu/driver.cc."""


@dataclass(frozen=True)
class InterruptSeen:
    """What was seen.

    Attributes:
        status: the NPU's STATUS in the end.
        before, after: numbers of the interrupts that were pending.
    """

    status: int
    before: frozenset[int]
    after: frozenset[int]

    @property
    def came(self) -> tuple[int, ...]:
        """Those that became pending."""
        return tuple(sorted(self.after - self.before))


def interrupt(board: Board) -> StepFinding:
    """Let the NPU raise its interrupt while the firmware, which gave it clocks and power, is halted."""
    with board_remote(board.loading) as remote:
        remote.halt()
        try:
            seen = _seen(remote, board)
        finally:
            if remote.usable:
                with contextlib.suppress(TargetError):
                    remote.resume()
                    remote.detach()
    return judge_interrupt(board.soc.npu_irq, seen)


def judge_interrupt(number: int, seen: InterruptSeen) -> StepFinding:
    """Compare what was seen with the number of the board's file."""
    values: dict[str, object] = {
        "status": f"0x{seen.status:08x}",
        "stated": number,
        "pending_before": sorted(seen.before),
        "pending_after": sorted(seen.after),
    }
    if not seen.status & IRQ_RAISED:
        return StepFinding.failed(
            FailureKind.TIMEOUT,
            f"the NPU does not end a program of one word within {_NPU_SECONDS:g} s: STATUS 0x{seen.status:08x}",
            "switch the board off and on; does the NPU have its clock, and does it reach the package's memory?",
            values,
        )
    if number in seen.came:
        return StepFinding(f"the NPU's interrupt arrives as number {number}: STATUS 0x{seen.status:08x}", values)
    if seen.came:
        others = " and ".join(map(str, seen.came))
        return StepFinding.failed(
            FailureKind.WRONG_BOARD,
            f"the NPU raises its interrupt, and number {others} becomes pending; the file says {number}",
            f"correct soc.npu.irq to {seen.came[0]}",
            values,
        )
    already = ", which was pending before" if number in seen.before else ""
    return StepFinding.failed(
        FailureKind.WRONG_BOARD,
        f"the NPU raises its interrupt, and none arrives at the processor; the file says number {number}{already}",
        "correct soc.npu.irq, or what routes it to the processor in the firmware's port",
        values,
    )


def _seen(remote: GdbRemote, board: Board) -> InterruptSeen:
    base, stream = board.soc.npu_registers.base, board.soc.firmware.package.base
    remote.write_word(base + NPU_RESET, PRIVILEGED)
    _awaited(remote, base, RESETTING, 0)
    before = _pending(remote)
    remote.write_word(stream, STOP)
    for register, value in ((NPU_QCONFIG, _EXTERNAL_PORT), (NPU_QBASE, stream), (NPU_QBASE_HIGH, 0), (NPU_QSIZE, 4)):
        remote.write_word(base + register, value)
    remote.write_word(base + NPU_CMD, RUN)
    status = _awaited(remote, base, IRQ_RAISED, IRQ_RAISED)
    seen = InterruptSeen(status, before, _pending(remote))
    remote.write_word(base + NPU_CMD, CLEAR_IRQ)
    remote.write_word(base + NPU_RESET, PRIVILEGED)  # also ends a program that does not end
    for number in seen.came:
        remote.write_word(NVIC_ICPR + number // 32 * 4, 1 << number % 32)
    return seen


def _awaited(remote: GdbRemote, base: int, mask: int, wanted: int) -> int:
    """Return the NPU's STATUS, once some bits of it are as wanted or the time is up."""
    deadline = Deadline(_NPU_SECONDS)
    while (status := remote.read_word(base + NPU_STATUS)) & mask != wanted and not deadline.passed:
        pass
    return status


def _pending(remote: GdbRemote) -> frozenset[int]:
    words = [remote.read_word(NVIC_ISPR + 4 * index) for index in range(NVIC_WORDS)]
    return frozenset(32 * index + bit for index, word in enumerate(words) for bit in range(32) if word >> bit & 1)
