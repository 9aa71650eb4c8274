"""Boards that failed and were not used successfully since: a group of boards does without them for a while."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.regular_file import read_text
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board
from ethos_hil.lowering.cache.settings import cache_folder

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
_DIGITS = 16


@dataclass(frozen=True)
class Quarantine:
    """Why and since when a board is not used.

    Attributes:
        since: seconds since 1970.
        kind: of the failure.
        reason: its message.
    """

    since: float
    kind: str
    reason: str


def quarantined(board: Board) -> Quarantine | None:
    """Return why a group of boards does without this one, or None."""
    try:
        text = json.loads(read_text(_file(board), most=_MOST_BYTES))
        found = Quarantine(float(text["since"]), str(text["kind"]), str(text["reason"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if 0 <= time.time() - found.since < SECONDS else None


def quarantine(board: Board, error: EthosHilError) -> None:
    """Have groups do without a board for a while, if this is a failure of its own."""
    if error.kind not in INFRASTRUCTURE:
        return
    path = _file(board)
    fresh = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):  # what cannot be noted costs a try later
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({"since": time.time(), "kind": error.kind, "reason": error.message}))
        fresh.replace(path)


def lift(board: Board) -> None:
    """Use a board again: a run on it went well."""
    with contextlib.suppress(OSError):
        _file(board).unlink(missing_ok=True)


def _file(board: Board) -> Path:
    """Return the file that says it. It is that of the port as the board's file has it.

    The device behind that, which the lease is of, is another one when a cable was pulled and plugged in again, or none.
    """
    where = board.link.url or board.name
    return cache_folder() / "boards" / f"{hashlib.sha256(where.encode()).hexdigest()[:_DIGITS]}.json"
