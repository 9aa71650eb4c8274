"""Virtual boards that wait, stopped, for their next run."""

from __future__ import annotations

import threading
from types import TracebackType

from ethos_hil.harness.errors import TargetNotAvailable
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.board import QemuBoard


class BoardPool:
    """One board of each system on chip at most. A context manager: leaving it ends them.

    It serves the thread that made it, and for others starts a board each time: QEMU ends with the thread it was started
    in, and so would a board that another still uses.
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
        """A board with an image in it, as new; the caller ends it or gives it back.

        Raises:
            TargetNotAvailable: QEMU is missing or does not start.
        """
        board = self._boards.pop(soc.name, None) if threading.get_ident() == self._thread else None
        if board is not None:
            try:
                board.put(elf)
                return board
            except TargetNotAvailable:  # it ended while it waited, for example: no business of this run's
                board.stop()
            except BaseException:
                board.stop()
                raise
        return new_board(soc, elf, guarded=True)

    def give(self, board: QemuBoard) -> None:
        """Take care of a board whose run ended well; nobody else uses it any more."""
        if threading.get_ident() == self._thread and board.soc.name not in self._boards:
            self._boards[board.soc.name] = board
        else:
            board.stop()

    def close(self) -> None:
        """End them; may be called again, and the pool be used again."""
        while self._boards:
            _, board = self._boards.popitem()
            board.stop()


def new_board(soc: Soc, elf: bytes, *, guarded: bool = False) -> QemuBoard:
    """A board that was just started, with an image in it; only a guarded one can be kept. Raises TargetNotAvailable."""
    board = QemuBoard(soc, guarded=guarded)
    try:
        board.put(elf)
    except BaseException:
        board.stop()
        raise
    return board
