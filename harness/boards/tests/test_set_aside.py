"""A board that failed is left alone for a while, and used again after a run that went well, whatever its device is."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.lease import SECONDS, lease_file, set_aside, take_back, why_set_aside
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE

PULLED = TargetError("the serial port is gone", kind=FailureKind.LINK)


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A link to a device, as in /dev/serial/by-id."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    path = tmp_path / "by-id"
    path.symlink_to("ttyUSB0")
    return path


@pytest.fixture
def board(port: Path) -> Board:
    """A board at that port."""
    file = port.with_name("mine.toml")
    file.write_text(f'extends = "mps3-an547"\n[link]\nurl = {json.dumps(str(port))}\n')
    return find_board(str(file))


def test_a_board_that_is_plugged_in_again_is_the_same(board: Board, port: Path) -> None:
    lock = lease_file(board)
    port.unlink()  # the cable is pulled, and the run fails
    set_aside(board, PULLED)
    port.symlink_to("ttyUSB1")
    assert lease_file(board) != lock
    entry = why_set_aside(board)
    assert entry is not None
    assert (entry.kind, entry.reason) == ("link", "the serial port is gone")
    take_back(board)
    assert why_set_aside(board) is None
    assert [path.name for path in lock.parent.iterdir()] == []


@pytest.mark.parametrize("kind", [FailureKind.TIMEOUT, FailureKind.LEASED, FailureKind.MISMATCH])
def test_what_runs_there_does_not_count_against_a_board(board: Board, kind: FailureKind) -> None:
    set_aside(board, PULLED.replace(kind=kind))
    assert why_set_aside(board) is None


def test_it_ends_by_itself(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    set_aside(board, PULLED)
    later = time.time() + SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert why_set_aside(board) is None
