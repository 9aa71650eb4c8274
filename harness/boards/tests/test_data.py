"""The boards that are shipped: each address has a source, and is what was read there."""

from __future__ import annotations

import itertools
import re
import textwrap
import tomllib
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.boards.board import UNTRIED, Board, Server
from ethos_hil.harness.boards.board_schema import DOCUMENT, document
from ethos_hil.harness.boards.catalogue import SHIPPED, find_board, shipped_boards
from ethos_hil.harness.boards.tests import samples
from ethos_hil.harness.socs.registry import SOCS, check_unique
from ethos_hil.harness.socs.soc import KIB

ROOT = Path(__file__).resolve().parents[3]
BOARDS = {board.name: board for board in shipped_boards()}
each_board = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
each_file = pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
FIRMWARE = 170 * KIB
"""Code and constants of the firmware with all kernels, and room for a little more: the Corstones' ELFs have 164 KiB."""
NUMBER = re.compile(r"(?<![\w.])\d[\d_]{3,}(?![\w])")


def test_numbers_and_names_of_systems_are_ones_own() -> None:
    check_unique([*SOCS, *(board.soc for board in BOARDS.values() if board.soc not in SOCS)])


ADDRESSES = tomllib.loads((samples.DATA / "addresses.toml").read_text())


@each_board
def test_addresses_are_those_of_the_sources(board: Board) -> None:
    soc = board.soc
    addresses = [soc.npu_registers.base, soc.npu_irq, soc.uarts[0].base, soc.firmware.package.base]
    assert addresses == ADDRESSES[board.name]


def test_the_alias_of_the_m55m1_is_the_other_way_round() -> None:
    soc = BOARDS["numaker-m55m1"].soc
    assert soc.npu_registers.alias == 0x50003000
    assert soc.secure_bit == 0
    for memory in soc.memories:
        assert memory.alias is not None
        assert memory.alias > memory.base


def test_each_core_of_an_alif_is_released_by_its_own_word() -> None:
    for name, board in BOARDS.items():
        if name.startswith("alif"):
            (word,) = board.reset.before
            assert (word.address, word.value) == (0x1A601024 if name.endswith("-he") else 0x1A600024, 0)
            assert board.loading.device.endswith("_HE" if name.endswith("-he") else "_HP")


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
    own = samples.board(tmp_path, whole, "my-camera")
    assert (own.soc.number, own.soc.npu_irq, own.loading.server) == (2000, 55, Server.OPENOCD)
    with pytest.raises(UsageError) as error:
        samples.board(tmp_path, whole.replace('pool = "SRAM"', 'pool = "DTCM"'), "my-camera")
    line = _block("what was found and what was expected:").strip()
    assert line == f"ethos-hil: {error.value.message.removeprefix(f'{tmp_path}/')}"
    (tmp_path / "my-e8.toml").write_text(_block("and has only that:"))
    mine = find_board(str(tmp_path / "my-e8.toml"))
    assert (mine.name, mine.soc.name, mine.loading.serial) == ("my-e8", "alif-e8-hp", "001234567890")
    assert mine.loading.command_line(4)[:3] == ("JLinkGDBServer", "-select", "usb=001234567890")
    running = _block("whose `monitor` commands it understands:")
    (tmp_path / "far.toml").write_text(f'extends = "mps3-an552"\n{running}')
    assert find_board(str(tmp_path / "far.toml")).reset.commands == ("reset halt",)
