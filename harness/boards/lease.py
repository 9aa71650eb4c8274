"""Who uses a board: one process at a time, whatever the board is called in its files; and which boards are set aside.

A board that failed is set aside, until a run on it goes well: a group of boards does without it for a while.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import EthosHilError, TargetNotAvailable, ToolError
from ethos_hil.base.file_lock import LIMIT, Holder, lock
from ethos_hil.base.files import read_text
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board
from ethos_hil.lowering.cache.contents import cache_folder

_DIGITS = 16


def lease_file(board: Board) -> Path:
    """Return the lock file of a board. It is that of its serial port: two files may describe one board."""
    url = board.link.url or board.name
    where = os.path.realpath(url) if "://" not in url else url
    return cache_folder() / "boards" / f"{hashlib.sha256(where.encode()).hexdigest()[:_DIGITS]}.lock"


@contextlib.contextmanager
def lease(board: Board, seconds: float = LIMIT) -> Iterator[None]:
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
            stack.enter_context(lock(path, limit=seconds))
        except ToolError as error:
            holder = Holder.read(path)
            who = "another process" if holder is None else str(holder)
            raise TargetNotAvailable(
                f"the board {board.name} is in use by {who}; waited {seconds:g} s",
                hint=None if holder is None else holder.remedy,
                kind=FailureKind.LEASED,
            ) from error
        yield


SECONDS = 15 * 60.0
"""How long a group does without a board."""
INFRASTRUCTURE = frozenset(
    {
        FailureKind.NOT_LAUNCHED,
        FailureKind.LINK,
        FailureKind.PROBE,
        FailureKind.READBACK,
        FailureKind.WRONG_BOARD,
        FailureKind.LOST_BOARD,
    }
)
"""Failures of a board, its probe or its line, and not of what runs there."""
_MOST_BYTES = 10_000


@dataclass(frozen=True)
class SetAside:
    """Why and since when a board is not used.

    Attributes:
        since: seconds since 1970.
        kind: of the failure.
        reason: its message.
    """

    since: float
    kind: str
    reason: str


def why_set_aside(board: Board) -> SetAside | None:
    """Return why a group of boards does without this one, or None."""
    try:
        text = json.loads(read_text(_file(board), most=_MOST_BYTES))
        entry = SetAside(float(text["since"]), str(text["kind"]), str(text["reason"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return entry if 0 <= time.time() - entry.since < SECONDS else None


def set_aside(board: Board, error: EthosHilError) -> None:
    """Have groups do without a board for a while, if this is a failure of its own."""
    if error.kind not in INFRASTRUCTURE:
        return
    path = _file(board)
    fresh = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):  # what cannot be noted costs a try later
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({"since": time.time(), "kind": error.kind, "reason": error.message}))
        fresh.replace(path)


def take_back(board: Board) -> None:
    """Use a board again: a run on it went well."""
    with contextlib.suppress(OSError):
        _file(board).unlink(missing_ok=True)


def _file(board: Board) -> Path:
    """Return the file that says it. It is that of the port as the board's file has it.

    The device behind that, which the lease is of, is another one when a cable was pulled and plugged in again, or none.
    """
    where = board.link.url or board.name
    return cache_folder() / "boards" / f"{hashlib.sha256(where.encode()).hexdigest()[:_DIGITS]}.json"
