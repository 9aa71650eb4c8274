"""Virtual boards that wait, stopped, for their next run."""

from __future__ import annotations

import threading
from types import TracebackType

from ethos_hil.harness.errors import TargetNotAvailable
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.board import QemuBoard


class BoardPool:
    """At most one waiting board for each system on chip. A context manager: leaving it ends the boards.

    The pool keeps boards only for the thread that made it. Other threads get a new board each time: QEMU ends with the
    thread that started it, and would take a board with it that another thread uses.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._boards: dict[str, QemuBoard] = {}

    def __enter__(self) -> BoardPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def take(self, soc: Soc, elf: bytes) -> QemuBoard:
        """Return a board in its initial state with an image loaded. The caller ends it or gives it back.

        Raises:
            TargetNotAvailable: QEMU is missing or does not start.
        """
        board = self._boards.pop(soc.name, None) if threading.get_ident() == self._thread else None
        if board is not None:
            try:
                board.load_image(elf)
                return board
            except TargetNotAvailable:  # e.g. it ended while it waited; this run takes a new one
                board.stop()
            except BaseException:
                board.stop()
                raise
        return new_board(soc, elf, guarded=True)

    def give(self, board: QemuBoard) -> None:
        """Keep a board whose run ended well, or end it. The caller must not use it any more."""
        if threading.get_ident() == self._thread and board.soc.name not in self._boards:
            self._boards[board.soc.name] = board
        else:
            board.stop()

    def close(self) -> None:
        """End all boards. May be called again, and the pool may be used again."""
        while self._boards:
            _, board = self._boards.popitem()
            board.stop()


def new_board(soc: Soc, elf: bytes, *, guarded: bool = False) -> QemuBoard:
    """Start a board with an image loaded. Only a guarded board can be kept. Raises TargetNotAvailable."""
    board = QemuBoard(soc, guarded=guarded)
    try:
        board.load_image(elf)
    except BaseException:
        board.stop()
        raise
    return board
