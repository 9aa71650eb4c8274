"""Files of boards: what they say, and what is said about those that are wrong. Both are recorded whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.boards.board import SERVER_COMMANDS, Board, Server
from ethos_hil.harness.boards.tests.samples import OWN, board
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.testing.snapshot import plain


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


NAMED = 'description = "x"\nnpus = ["ethos-u55-64"]\nsoc = "corstone-300"\n'
NAMED += '[loading]\nserver = "none"\n[link]\nbaud = 115200\n'
PROBE = 'server = "pyocd"\ndevice = "cortex_m"\nserial = "0240"\n'
RUNNING = 'server = "running"\ndialect = "qemu"\naddress = "127.0.0.1:1234"\n'
MINE = 'extends = "own"\n[soc]\nnumber = 4001\n[soc.npu]\nirq = 13\n'
BOARDS = {
    "a whole file": OWN,
    "without a serial number": changed('serial = "0240"\n', ""),
    "J-Link": changed('server = "pyocd"', 'server = "jlink"').replace('serial = "0240"\n', ""),
    "a running server": changed(PROBE, RUNNING),
    "a declared system": NAMED,
    "another line and probe": 'extends = "own"\n[link]\nurl = "/dev/ttyUSB7"\n[loading]\nserial = "77"\n',
    "another system": MINE,
    "another system with a source": MINE + '[sources]\n"soc.npu" = "page 12"\n',
}


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
        recorded.check(
            [mine.npus, mine.soc, mine.link, mine.reset, mine.power, mine.quirks, mine.loading], "as a whole"
        )
    words = [mine.name, mine.soc.name, mine.loading.address, mine.loading.dialect, mine.reset.commands]
    command = mine.loading.command_line(3333) if mine.loading.command else ()
    recorded.check({"of": words, "command": " ".join(command), **shown})


def test_a_board_keeps_the_system_that_it_does_not_change(tmp_path: Path) -> None:
    own = board(tmp_path)
    assert own.path == tmp_path / "own.toml"
    assert board(tmp_path, BOARDS["another line and probe"], "mine").soc == own.soc  # its firmware is that of the other
    assert board(tmp_path, NAMED, "mine").soc is find_soc("corstone-300")
    with pytest.raises(KeyError, match=r"has no soc\.dma"):
        own.value("soc.dma")


def test_every_server_has_its_port_and_a_dialect() -> None:
    for server in Server:
        if server in SERVER_COMMANDS:
            assert any("{port}" in word for word in SERVER_COMMANDS[server])
            assert ServerDialect(server.value).words.reset_and_halt
    assert {*Server} - {*SERVER_COMMANDS} == {Server.NONE, Server.RUNNING}


WRONG = [
    ("irq = 12", "irq = '12'"),
    ("irq = 12", "irp = 12"),
    ("[loading]", "[loadin]"),
    ("number = 4000", "number = 300"),
    ('server = "pyocd"', 'server = "gdb"'),
    ('quirks = ["short-writes"]', 'quirks = ["short"]'),
    ("ethos-u55-128", "ethos-u55-129"),
    ('boot = "CODE"', 'boot = "COD"'),
    ("alias = 0x00000000", "alias = 0x20000000"),
    ("base = 0x60000000", "base = 0xfff80000"),
    ("base = 0x40000000", "base = 0x30080000"),
    ("base = 0x40010000", "base = 0x40010002"),
    ("secure_bit = 0", "secure_bit = 3"),
    ('pool = "POOL"', 'pool = "DATA"'),
    ('data = "DATA"', 'data = "FLASH"'),
    ("package = { base = 0x30100000", "package = { base = 0x30180000"),
    ("package = { base = 0x30100000", "package = { base = 0x30000000"),
    ("base = 0x30100000, size = 0x00100000", "base = 0x30100008, size = 0x00080000"),
    ("base = 0x30100000, size = 0x00100000", "base = 0x30100000, size = 0x00001000"),
    ("base = 0x30100000, size = 0x00100000", "base = 0x60000000, size = 0x00100000"),
    ("base = 0x10000000", "base = 0x10000200"),
    ("irq = 12", "irq = 128"),
    ('driver = "u55"', 'driver = "u85"'),
    ("peripheral_hz = 50_000_000", "peripheral_hz = 3_000_000"),
    (", FRACTION_BITS = 4", ""),
    ("fastest_baud = 921600", "fastest_baud = 9600"),
    ('device = "cortex_m"', 'command = ["gdbserver"]'),
    ('device = "cortex_m"', 'command = ["x", "{port}", "{probe}"]'),
    ('device = "cortex_m"', 'address = "localhost:1"'),
    ('server = "pyocd"', 'server = "running"'),
    ('server = "pyocd"', 'server = "none"'),
    ("address = 0x40020000", "address = 0x40020001"),
    ("cycle = [", "on = ["),
    ('"soc.npu" = "a better', '"soc.nbu" = "a better'),
    ('"soc.npu.irq" = "nobody', '"soc.npu.clock" = "nobody'),
]


@pytest.mark.parametrize(("old", "new"), WRONG, ids=[new for _, new in WRONG])
def test_what_is_wrong_is_said_with_file_line_and_key(recorded: Recorded, tmp_path: Path, old: str, new: str) -> None:
    check_error(recorded, tmp_path, changed(old, new))


OTHERS = {
    "own": OWN,
    "late": changed("irq = 12", "irq = 128"),
    "one": 'extends = "two"\n',
    "half": 'description = "half"\n',
}
"""Files that are there to be extended."""
WRONG_FILES = {
    "an npu that the system has not": ("mine", NAMED.replace("ethos-u55-64", "ethos-u85-256")),
    "a system that is not declared": ("mine", NAMED.replace("corstone-300", "corstone300")),
    "a baud rate that the UART misses": ("mine", NAMED.replace("115200", "2000000")),
    "another system without a number of its own": ("mine", 'extends = "own"\n[soc.npu]\nirq = 13\n'),
    "another system with the name of a shipped board": ("ek-ra8p1", OWN),
    "files that extend one another": ("two", 'extends = "one"\n'),
    "what an extended file lacks": ("whole", 'extends = "half"\n'),
    "an error in an extended file": ("mine", 'extends = "late"\n'),
    "an error in the file that extends": ("mine", 'extends = "own"\n[link]\nbaud = 31\n'),
    "a capital letter": ("My-board", OWN),
    "a blank": ("my board", OWN),
    "a dash": ("-x", OWN),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_what_is_wrong_among_files_names_the_right_one(recorded: Recorded, tmp_path: Path, name: str) -> None:
    for other, text in OTHERS.items():
        (tmp_path / f"{other}.toml").write_text(text)
    file, text = WRONG_FILES[name]
    check_error(recorded, tmp_path, text, file)
