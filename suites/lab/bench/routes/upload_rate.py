"""How much of the line's rate an upload has."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.monitor import MonitorLink
from ethos_hil.harness.boards.serial_line import SerialLine

BITS = 10
"""Of a byte on the line."""
_SECONDS = 120.0


@dataclass(frozen=True)
class UploadRate:
    """How an upload went.

    Attributes:
        size: bytes of the package.
        baud: bits per second of the line.
        seconds: until the last receipt.
        again: bytes that were sent more than once.
        lost: bytes that the board's UART says it lost.
        damaged: frames that arrived damaged.
    """

    size: int
    baud: int
    seconds: float
    again: int
    lost: int
    damaged: int

    @property
    def share(self) -> float:
        """The part of the line's rate that the package's own bytes had."""
        return self.size * BITS / self.baud / self.seconds


def measure_upload(board: Board, size: int, seed: int) -> UploadRate:
    """Upload random bytes to a board whose firmware waits for a package. They are not run.

    Args:
        board: the board.
        size: bytes.
        seed: of the bytes.

    Raises:
        TargetError: the firmware does not answer, or the upload fails.
    """
    url, deadline = board.link.url, Deadline(_SECONDS)
    assert url is not None
    with SerialLine(url, board.link.baud) as line:
        link = MonitorLink(line)
        there = link.sync(deadline)
        if there is None or not link.change_speed(board.link.fastest_baud, deadline):
            raise TargetError(f"nothing answers on {url}, or not at {board.link.fastest_baud}", kind=FailureKind.LINK)
        uploaded = link.upload(random.Random(seed).randbytes(size), deadline)
        rate = UploadRate(size, line.baud, uploaded.seconds, uploaded.again, uploaded.lost, uploaded.damaged)
        link.change_speed(board.link.baud, deadline)
    return rate
