"""All boards: those that are shipped, and the user's."""

from __future__ import annotations

import os
from pathlib import Path

from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.board_file import read_board
from ethos_hil.harness.socs.registry import SocSource
from ethos_hil.harness.socs.soc import Soc

BOARDS_VARIABLE = "ETHOS_HIL_BOARDS"
"""Names folders with the user's boards, separated as those of PATH are."""
ENDING = ".toml"
SHIPPED = Path(__file__).with_name("data")
"""The folder of the boards that come with this package."""
_by_path: dict[str, Board] = {}
"""Boards that were given as paths, by the name of their system: programs are packed for that name later."""


def board_folders() -> tuple[Path, ...]:
    """Return the folders with boards, those that are searched first at the front.

    These are the ones of $ETHOS_HIL_BOARDS, the user's own (~/.config/ethos-hil/boards on Linux), and ours.
    """
    import platformdirs  # late: not every command needs it

    setting = os.environ.get(BOARDS_VARIABLE, "")
    named = [Path(folder).expanduser().absolute() for folder in setting.split(os.pathsep) if folder]
    return (*named, Path(platformdirs.user_config_dir("ethos-hil")) / "boards", SHIPPED)


def board_files() -> dict[str, Path]:
    """Return the file of each board by its name, in alphabetical order; of two, the one that is found first.

    Raises:
        UsageError: a folder of $ETHOS_HIL_BOARDS is not there or cannot be read.
    """
    files: dict[str, Path] = {}
    for path in _all_files():
        files.setdefault(path.stem, path)
    return dict(sorted(files.items()))


def _all_files() -> list[Path]:
    own = board_folders()
    files: list[Path] = []
    for folder in own:
        try:
            files += sorted(path for path in folder.iterdir() if path.suffix == ENDING)
        except OSError as error:
            if folder in own[-2:] and isinstance(error, FileNotFoundError | NotADirectoryError):
                continue  # the user need not have one
            raise UsageError(
                f"${BOARDS_VARIABLE}: the folder {folder} cannot be read: {error.strerror or error}",
                hint=f"make it, or take it out of {BOARDS_VARIABLE}",
            ) from error
    return files


def find_board(name: str) -> Board:
    """Return a board.

    Args:
        name: its name, or the path of its file: what has a folder or the ending .toml is one.

    Raises:
        UsageError: there is none, or its file is wrong.
    """
    if is_path(name):
        board = read_board(Path(name).expanduser(), _find_extended, SHIPPED)
        _by_path[board.soc.name] = board
        return board
    path = board_files().get(name)
    if path is None:
        raise _unknown(name, "no board is called {!r}")
    return read_board(path, _find_extended, SHIPPED)


def is_path(name: str) -> bool:
    """Return whether a board is given as a path."""
    return name.endswith(ENDING) or os.sep in name or (os.altsep is not None and os.altsep in name)


def all_boards() -> tuple[tuple[Board, ...], tuple[EthosHilError, ...]]:
    """Return all boards by name, and what is wrong with the files that are not boards.

    Raises:
        UsageError: a folder of $ETHOS_HIL_BOARDS is not there or cannot be read.
    """
    boards, wrong = [], []
    for path in board_files().values():
        try:
            boards.append(read_board(path, _find_extended, SHIPPED))
        except EthosHilError as error:
            wrong.append(error)
    return tuple(boards), tuple(wrong)


def shipped_boards() -> tuple[Board, ...]:
    """Return the boards that come with this package, by name, whatever files the user has.

    Raises:
        UsageError: a file is wrong.
    """
    return tuple(read_board(path, _find_extended, SHIPPED) for path in sorted(SHIPPED.glob(f"*{ENDING}")))


def _find_extended(name: str, path: Path) -> Path:
    """Return the file that `path` extends as `name`.

    Of its own name it is one that is found later, so that a user's file may change the shipped one of the same name. Of
    ours it is one of ours, whatever the user has.
    """
    if is_path(name):
        return path.parent / Path(name).expanduser()
    files = sorted(SHIPPED.glob(f"*{ENDING}")) if path.parent == SHIPPED else _all_files()
    later = files[files.index(path) + 1 :] if path.stem == name and path in files else files
    for other in later:
        if other.stem == name:
            return other
    raise _unknown(name, f"{path}: extends: no board is called {{!r}}", but=path)


def _unknown(name: str, text: str, but: Path | None = None) -> UsageError:
    names = [known for known, path in board_files().items() if path != but]
    suggestion = did_you_mean(name, names)
    return UsageError(
        text.format(name),
        hint=f"{suggestion}boards: {', '.join(names)}; a path ends with {ENDING}; docs/boards.md has how to write one",
    )


def _soc(name: str) -> Soc | None:
    """Return the system of that name of any board, or that of a file."""
    if is_path(name):
        return find_board(name).soc
    if name in _by_path:
        return _by_path[name].soc
    shipped = SHIPPED / f"{name}{ENDING}"
    path = shipped if shipped.is_file() else board_files().get(name)
    soc = None if path is None else read_board(path, _find_extended, SHIPPED).soc
    return soc if soc is not None and soc.name == name else None


def _shipped_socs() -> tuple[Soc, ...]:
    """Return the systems that shipped boards declare; harness/socs has the others."""
    return tuple(board.soc for board in shipped_boards() if board.soc.name == board.name)


def _names() -> tuple[str, ...]:
    boards, _ = all_boards()
    return tuple(dict.fromkeys(board.soc.name for board in boards if board.soc.name == board.name))


SOURCE = SocSource("boards", _soc, _shipped_socs, _names)
"""The plug-in through which `find_soc` finds the systems of boards."""
