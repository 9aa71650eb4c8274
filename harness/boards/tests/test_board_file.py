"""Files of boards: what they say, and what is said about those that are wrong. Both are recorded whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded, plain, sections
from ethos_hil.harness.boards.board import SERVER_COMMANDS, Board, Server
from ethos_hil.harness.boards.tests.samples import DATA, OWN, board
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.socs.registry import find_soc


def changed(old: str, new: str, text: str = OWN) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def check_error(recorded: Recorded, folder: Path, text: str, name: str = "own") -> None:
    """A board is refused with the recorded message and hint, and with the line that the message names."""
    with pytest.raises(UsageError) as error:
        board(folder, text, name)
    place = re.match(r"(.*\.toml):(\d+): ", error.value.message)
    line = Path(place[1]).read_text().splitlines()[int(place[2]) - 1] if place else "no line"
    assert error.value.hint
    recorded.check(plain(f"{error.value.message}\nhint: {error.value.hint}\nline: {line}", [folder]))


def values(board: Board) -> dict[str, str]:
    return {value.key: f"{value} | {value.source} | {value.tried}" for value in board.values}


BOARDS = {"a whole file": OWN, **sections(DATA / "boards.txt")}


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_what_its_file_and_those_it_extends_say(recorded: Recorded, tmp_path: Path, name: str) -> None:
    """With the source of each value, and who tried it: a user's own value is the user's."""
    own = board(tmp_path)
    mine = board(tmp_path, BOARDS[name], "mine")
    if name != "a whole file":  # what differs from it is enough
        first = values(own)
        shown = {key: text for key, text in values(mine).items() if first.get(key) != text}
    else:
        shown = values(mine)
        parts = (mine.npus, mine.soc, mine.link, mine.reset, mine.power, mine.quirks, mine.loading)
        recorded.check("\n".join(map(repr, parts)), "as a whole")
    words = [mine.name, mine.soc.name, mine.loading.address, mine.loading.dialect, mine.reset.commands]
    command = mine.loading.command_line(3333) if mine.loading.command else ()
    recorded.check({"of": words, "command": " ".join(command), **shown})


def test_a_board_keeps_the_system_that_it_does_not_change(tmp_path: Path) -> None:
    own = board(tmp_path)
    assert own.path == tmp_path / "own.toml"
    assert board(tmp_path, BOARDS["another line and probe"], "mine").soc == own.soc  # its firmware is that of the other
    assert board(tmp_path, BOARDS["a declared system"], "mine").soc is find_soc("corstone-300")
    with pytest.raises(KeyError, match=r"has no soc\.dma"):
        own.value("soc.dma")


def test_every_server_has_its_port_and_a_dialect() -> None:
    for server in Server:
        if server in SERVER_COMMANDS:
            assert any("{port}" in word for word in SERVER_COMMANDS[server])
            assert ServerDialect(server.value).words.reset_and_halt
    assert {*Server} - {*SERVER_COMMANDS} == {Server.NONE, Server.RUNNING}


WRONG = [line.split(" =>") for line in (DATA / "wrong.txt").read_text().splitlines()]
"""What is in the file, and what is wrong in its place."""


@pytest.mark.parametrize(("old", "new"), WRONG, ids=[new.strip() for _, new in WRONG])
def test_what_is_wrong_is_said_with_file_line_and_key(recorded: Recorded, tmp_path: Path, old: str, new: str) -> None:
    check_error(recorded, tmp_path, changed(old, new.removeprefix(" ")))


OTHERS = {
    "own": OWN,
    "late": changed("irq = 12", "irq = 128"),
    "one": 'extends = "two"\n',
    "half": 'description = "half"\n',
}
"""Files that are there to be extended."""
_WRONG_FILES = sections(DATA / "wrong_files.txt")
WRONG_FILES = {
    "another system with the name of a shipped board": ("ek-ra8p1", OWN),
    **{f"a board called {name}": (name, OWN) for name in ("My-board", "my board", "-x")},
    **{
        name: (file, text)
        for key, text in sections(DATA / "wrong_files.txt").items()
        for file, name in [key.split(" | ")]
    },
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_what_is_wrong_among_files_names_the_right_one(recorded: Recorded, tmp_path: Path, name: str) -> None:
    for other, text in OTHERS.items():
        (tmp_path / f"{other}.toml").write_text(text)
    file, text = WRONG_FILES[name]
    check_error(recorded, tmp_path, text, file)
