"""Who uses a board: one process at a time, whatever the board is called in its files."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from ethos_hil.base.errors import TargetNotAvailable, ToolError
from ethos_hil.base.file_lock import LIMIT, Holder, locked
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board
from ethos_hil.lowering.cache.settings import cache_folder

_DIGITS = 16


def lease_file(board: Board) -> Path:
    """Return the lock file of a board. It is that of its serial port: two files may describe one board."""
    url = board.link.url or board.name
    where = os.path.realpath(url) if "://" not in url else url
    return cache_folder() / "boards" / f"{hashlib.sha256(where.encode()).hexdigest()[:_DIGITS]}.lock"


@contextlib.contextmanager
def leased(board: Board, seconds: float = LIMIT) -> Iterator[None]:
    """Use a board alone. Another process that uses it is waited for, and told of.

    Args:
        board: the board.
        seconds: to wait at most.

    Raises:
        TargetNotAvailable: kind "leased": another process has used it all the time; says which.
    """
    path = lease_file(board)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(path, limit=seconds))
        except ToolError as error:
            holder = Holder.read(path)
            who = "another process" if holder is None else str(holder)
            raise TargetNotAvailable(
                f"the board {board.name} is in use by {who}; waited {seconds:g} s",
                hint=None if holder is None else holder.remedy,
                kind=FailureKind.LEASED,
            ) from error
        yield
