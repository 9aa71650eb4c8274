"""Files of boards: what they say, what is said about those that are wrong (both recorded whole), where they are found,
and the boards that are shipped: each address has a source, and is what was read there."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.testing.recorded import Recorded, plain, sections
from ethos_hil.harness.boards import catalogue
from ethos_hil.harness.boards.board import SERVER_COMMANDS, UNTRIED, Board, Server
from ethos_hil.harness.boards.board_schema import DOCUMENT, document
from ethos_hil.harness.boards.catalogue import SHIPPED, all_boards, board_files, find_board, shipped_boards
from ethos_hil.harness.boards.tests.samples import DATA, OWN, board
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.socs.registry import SOCS, check_unique, find_soc, shipped_socs
from ethos_hil.harness.socs.soc import KIB


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


# --- Where they are found. ---


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder that the environment names, and the user's own."""
    named, home = tmp_path / "named", tmp_path / "config/ethos-hil/boards"
    named.mkdir()
    home.mkdir(parents=True)
    monkeypatch.setenv("ETHOS_HIL_BOARDS", str(named))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(catalogue, "_by_path", {})
    return named, home


def bench(url: str, board: str = "alif-e8-hp") -> str:
    return f'extends = "{board}"\n[link]\nurl = "{url}"\n'


def test_what_is_found_first_counts(folders: tuple[Path, Path]) -> None:
    named, home = folders
    (home / "bench.toml").write_text(bench("home"))
    assert find_board("bench").link.url == "home"
    (named / "bench.toml").write_text(bench("named"))
    assert find_board("bench").link.url == "named"
    assert list(board_files()) == sorted([*(path.stem for path in SHIPPED.glob("*.toml")), "bench"])


def test_a_users_file_may_change_the_shipped_one_of_its_name(folders: tuple[Path, Path]) -> None:
    named, home = folders
    (home / "alif-e8-hp.toml").write_text(bench("home"))
    (named / "alif-e8-hp.toml").write_text('extends = "alif-e8-hp"\n[loading]\nserial = "1"\n')
    mine = find_board("alif-e8-hp")
    assert (mine.link.url, mine.loading.serial) == ("home", "1")
    assert mine.soc == find_soc("alif-e8-hp")
    # Ours are as they were, and those that extend it too.
    assert {board.link.url for board in shipped_boards()} == {None}
    assert find_board("alif-e8-he").link.url is None


def test_a_file_that_extends_a_name_that_only_it_has_says_so(folders: tuple[Path, Path]) -> None:
    (folders[0] / "alone.toml").write_text(bench("x", "alone"))
    with pytest.raises(UsageError, match=r"alone\.toml: extends: no board is called 'alone'"):
        find_board("alone")


def test_a_path_is_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    assert find_board(str(tmp_path / "mine.toml")).name == "mine"
    monkeypatch.chdir(tmp_path)
    assert find_board("./mine.toml").soc.number == 4000
    assert find_board("mine.toml").soc.number == 4000
    (tmp_path / "more.toml").write_text('extends = "./mine.toml"\n[link]\nbaud = 57600\n')
    assert find_board("more.toml").link.baud == 57600
    with pytest.raises(UsageError, match=r"gone\.toml cannot be read: No such file"):
        find_board("gone.toml")


def test_the_system_of_a_path_is_known_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    with pytest.raises(ToolError, match="no system on chip is called 'mine'") as error:
        find_soc("mine")
    assert "files of boards declare alif-e7-he" in str(error.value.hint)
    board = find_board(str(tmp_path / "mine.toml"))
    assert find_soc("mine") == find_soc(str(tmp_path / "mine.toml")) == board.soc


def test_the_system_of_a_name_is_found(folders: tuple[Path, Path]) -> None:
    (folders[0] / "own.toml").write_text(OWN)
    (folders[0] / "bench.toml").write_text(bench("x"))
    assert find_soc("own").number == 4000
    assert find_soc("numaker-m55m1").npu_irq == 13
    with pytest.raises(ToolError):
        find_soc("bench")  # its system is called alif-e8-hp
    assert "own" not in [soc.name for soc in shipped_socs()]


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no board is called 'numaker-m55'") as error:
        find_board("numaker-m55")
    assert str(error.value.hint).startswith("did you mean numaker-m55m1? boards: alif-e7-he,")


def test_a_wrong_file_does_not_keep_the_others_out(folders: tuple[Path, Path]) -> None:
    (folders[0] / "wrong.toml").write_text("= 1\n")
    boards, wrong = all_boards()
    assert len(boards) == len(list(SHIPPED.glob("*.toml")))
    assert len(wrong) == 1
    assert "wrong.toml is not TOML" in wrong[0].message


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_BOARDS", os.pathsep.join([str(tmp_path / "named"), str(tmp_path / "gone")]))
    with pytest.raises(UsageError, match=r"\$ETHOS_HIL_BOARDS: the folder .*/gone cannot be read: No such file"):
        board_files()
    monkeypatch.delenv("ETHOS_HIL_BOARDS")
    shutil.rmtree(tmp_path / "config")
    assert board_files()  # no one needs a folder of his own


def test_the_registry_finds_boards_in_a_process_that_has_not_imported_them() -> None:
    code = "from ethos_hil.harness.socs.registry import find_soc; print(hex(find_soc('ek-ra8p1').npu_registers.base))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0x40140000\n", done.stderr


# --- The boards that are shipped. ---

ROOT = Path(__file__).resolve().parents[3]
SHIPPED_BOARDS = {board.name: board for board in shipped_boards()}
each_board = pytest.mark.parametrize("board", SHIPPED_BOARDS.values(), ids=SHIPPED_BOARDS)
each_file = pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
FIRMWARE = 170 * KIB
"""Code and constants of the firmware with all kernels, and room for a little more: the Corstones' ELFs have 164 KiB."""
NUMBER = re.compile(r"(?<![\w.])\d[\d_]{3,}(?![\w])")


def test_numbers_and_names_of_systems_are_ones_own() -> None:
    check_unique([*SOCS, *(board.soc for board in SHIPPED_BOARDS.values() if board.soc not in SOCS)])


ADDRESSES = tomllib.loads((DATA / "addresses.toml").read_text())


@each_board
def test_addresses_are_those_of_the_sources(board: Board) -> None:
    soc = board.soc
    addresses = [soc.npu_registers.base, soc.npu_irq, soc.uarts[0].base, soc.firmware.package.base]
    assert addresses == ADDRESSES[board.name]


def test_the_alias_of_the_m55m1_is_the_other_way_round() -> None:
    soc = SHIPPED_BOARDS["numaker-m55m1"].soc
    assert soc.npu_registers.alias == 0x50003000
    assert soc.secure_bit == 0
    for memory in soc.memories:
        assert memory.alias is not None
        assert memory.alias > memory.base


def test_each_core_of_an_alif_is_released_by_its_own_word() -> None:
    for name, alif in SHIPPED_BOARDS.items():
        if name.startswith("alif"):
            (word,) = alif.reset.before
            assert (word.address, word.value) == (0x1A601024 if name.endswith("-he") else 0x1A600024, 0)
            assert alif.loading.device.endswith("_HE" if name.endswith("-he") else "_HP")


_SOURCE = re.compile(r"(\w[\w-]*/[\w-]+|Zephyr), [\w./-]+\.\w+\b|harness/socs/\w+\.py|Arm's learning path \w+")
_OURS = ("our choice of ", "inferred: ", "pyOCD's generic target")


@each_board
def test_each_value_names_its_source(board: Board) -> None:
    """A repository and a file in it, or a word that says that it is our choice or inferred."""
    for value in board.values:
        if value.key not in ("description", "notes", "quirks", "soc", "soc.number", "soc.summary"):
            assert _SOURCE.match(value.source) or value.source.startswith(_OURS), f"{value.key}: {value.source!r}"


@each_board
def test_nobody_is_said_to_have_tried_what_he_did_not(board: Board) -> None:
    tried = {value.tried for value in board.values} - {UNTRIED}
    assert board.name == "mps4-fi101" or not tried


@each_board
def test_the_firmware_fits(board: Board) -> None:
    soc, places = board.soc, board.soc.firmware
    room = soc.memory(places.code).size + (soc.memory(places.boot).size if places.boot != places.code else 0)
    assert room >= FIRMWARE
    assert soc.memory(places.data).size >= 64 * KIB
    assert soc.memory(places.stack).size >= 32 * KIB


@each_board
def test_a_place_and_a_port_are_the_users_to_say(board: Board) -> None:
    assert board.link.url is None
    assert board.loading.serial == ""
    assert board.loading.server is not Server.RUNNING


@each_file
def test_addresses_are_written_in_hexadecimal(path: Path) -> None:
    for line in path.read_text().splitlines():
        name, _, value = line.partition(" = ")
        if name in ("base", "size", "alias", "package"):
            assert "0x" in value, line
            assert not NUMBER.search(value), line


def test_the_schema_in_the_documents_is_the_one_in_use() -> None:
    """Otherwise: python -m ethos_hil.harness.boards.board_schema."""
    assert (ROOT / DOCUMENT).read_text() == document()


def _block(before: str) -> str:
    """The block of docs/boards.md that follows a sentence."""
    lines = (ROOT / "docs/boards.md").read_text().split(before, 1)[1].lstrip("\n").splitlines()
    block = itertools.takewhile(lambda line: line.startswith("    ") or not line, lines)
    return textwrap.dedent("\n".join(block))


def test_the_examples_of_the_documents_are_boards(tmp_path: Path) -> None:
    whole = _block("This is a whole one:")
    own = board(tmp_path, whole, "my-camera")
    assert (own.soc.number, own.soc.npu_irq, own.loading.server) == (2000, 55, Server.OPENOCD)
    with pytest.raises(UsageError) as error:
        board(tmp_path, whole.replace('pool = "SRAM"', 'pool = "DTCM"'), "my-camera")
    line = _block("what was found and what was expected:").strip()
    assert line == f"ethos-hil: {error.value.message.removeprefix(f'{tmp_path}/')}"
    (tmp_path / "my-e8.toml").write_text(_block("and has only that:"))
    mine = find_board(str(tmp_path / "my-e8.toml"))
    assert (mine.name, mine.soc.name, mine.loading.serial) == ("my-e8", "alif-e8-hp", "001234567890")
    assert mine.loading.command_line(4)[:3] == ("JLinkGDBServer", "-select", "usb=001234567890")
    running = _block("whose `monitor` commands it understands:")
    (tmp_path / "far.toml").write_text(f'extends = "mps3-an552"\n{running}')
    assert find_board(str(tmp_path / "far.toml")).reset.commands == ("reset halt",)
