"""A small board of its own, as text, for tests that change it."""

from __future__ import annotations

from pathlib import Path

from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.board_file import read_board
from ethos_hil.harness.boards.catalogue import SHIPPED

DATA = Path(__file__).parent / "data"
OWN = (DATA / "own.toml").read_text()


def beside(name: str, path: Path) -> Path:
    return path.with_name(f"{name}.toml")


def board(folder: Path, text: str = OWN, name: str = "own") -> Board:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return read_board(path, beside, SHIPPED)
