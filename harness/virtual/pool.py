"""Virtual boards that wait, stopped, for their next run."""

from __future__ import annotations

import threading
from collections.abc import Collection
from types import TracebackType

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.board import QemuBoard
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.rules import Rule

_Kind = tuple[str, frozenset[Rule], Fittings]
"""Boards that can stand in for each other have the same."""


class BoardPool:
    """At most one waiting board for each system on chip with its rules and fittings. A context manager: leaving it ends
    the boards.

    The pool keeps boards only for the thread that made it. Other threads get a new board each time: QEMU ends with the
    thread that started it, and would take a board with it that another thread uses.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._boards: dict[_Kind, QemuBoard] = {}

    def __enter__(self) -> BoardPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def take(
        self, soc: Soc, elf: bytes, *, rules: Collection[Rule] = (), fittings: Fittings | None = None, seed: int = 0
    ) -> QemuBoard:
        """Return a board in its initial state with an image loaded. The caller ends it or gives it back.

        Args:
            soc: the system on chip.
            elf: the image.
            rules, fittings: see `QemuBoard`.
            seed: see `QemuBoard.load_image`.

        Raises:
            TargetNotAvailable: QEMU is missing or does not start.
        """
        kind = (soc.name, frozenset(rules), fittings or Fittings.of(soc, rules))
        board = self._boards.pop(kind, None) if threading.get_ident() == self._thread else None
        if board is not None:
            try:
                board.load_image(elf, seed)
                return board
            except TargetNotAvailable:  # e.g. it ended while it waited; this run takes a new one
                board.stop()
            except BaseException:
                board.stop()
                raise
        return new_board(soc, elf, rules=rules, fittings=fittings, seed=seed, guarded=True)

    def give(self, board: QemuBoard) -> None:
        """Keep a board whose run ended well, or end it. The caller must not use it any more."""
        kind = (board.soc.name, board.rules, board.fittings)
        if threading.get_ident() == self._thread and kind not in self._boards:
            self._boards[kind] = board
        else:
            board.stop()

    def close(self) -> None:
        """End all boards. May be called again, and the pool may be used again."""
        while self._boards:
            _, board = self._boards.popitem()
            board.stop()


def new_board(
    soc: Soc,
    elf: bytes,
    *,
    rules: Collection[Rule] = (),
    fittings: Fittings | None = None,
    seed: int = 0,
    guarded: bool = False,
) -> QemuBoard:
    """Start a board with an image loaded. Only a guarded board can be kept. Raises TargetNotAvailable."""
    board = QemuBoard(soc, rules=rules, fittings=fittings, guarded=guarded)
    try:
        board.load_image(elf, seed)
    except BaseException:
        board.stop()
        raise
    return board
