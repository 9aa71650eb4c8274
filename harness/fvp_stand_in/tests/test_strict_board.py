"""Foreign programs on the strict board: what they do wrong is named with its place, and others run as ever."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.fvp_stand_in.tests.conftest import Board, build
from ethos_hil.harness.targets.registry import make_target

NPUS = {"corstone-300": "ethos-u55-128", "corstone-320": "ethos-u85-256"}
BREACH = (
    "rule part-memories of the strict board: 4 bytes loaded from 0x11100000, where this system has no memory, in "
    "careless at 0x"
)


@pytest.fixture
def careless(board: Board, tmp_path: Path) -> Board:
    """Each board with the careless program."""
    return replace(board, guest=build(board.model.soc.name, tmp_path / "careless.elf", "careless.c"))


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_launcher_names_the_rule_and_the_place(careless: Board, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    assert careless.run("").status == 0
    if way == "variable":
        monkeypatch.setenv("ETHOS_HIL_STRICT_BOARD", "1")
    ended = careless.run("", *(["--strict-board"] if way == "option" else []))
    assert ended.status == 1
    assert re.fullmatch(rf"Error: board-rule: {re.escape(BREACH)}[0-9a-f]+ \(careless\.c:5\)\n", ended.stderr), ended


def test_the_variable_is_zero_or_one(careless: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_STRICT_BOARD", "perhaps")
    ended = careless.run("")
    assert (ended.status, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Error: ETHOS_HIL_STRICT_BOARD is 'perhaps'")


@pytest.mark.parametrize("strict_board", [False, True])
def test_a_runner_is_told_the_rule_and_the_place(careless: Board, tmp_path: Path, strict_board: bool) -> None:
    soc = careless.model.soc.name
    target = make_target("virtual", EthosU.parse(NPUS[soc]), strict_board=strict_board)
    elf = careless.guest.read_bytes()
    if not strict_board:
        assert target.boot(elf, "", tmp_path, timeout=30).status == 0
        return
    with pytest.raises(TargetError) as caught:
        target.boot(elf, "", tmp_path, timeout=30)
    assert caught.value.kind == "board-rule"
    assert caught.value.message.startswith(BREACH)


def test_a_program_that_keeps_the_rules_runs_as_ever(board: Board) -> None:
    """Newlib's start-up, semihosting in both directions, a heap, and files."""
    data = bytes(range(256)) * 300
    (board.folder / "in.bin").write_bytes(data)
    ended = board.run("copy in.bin out.bin", "--strict-board")
    assert (ended.status, ended.stderr) == (0, "")
    assert (board.folder / "out.bin").read_bytes() == data
