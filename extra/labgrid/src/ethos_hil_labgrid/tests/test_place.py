"""Protects how places are named, and that a place says where its board is, whatever the board's file says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.boards.board import Power
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil_labgrid.place import BorrowedPlace, KnownPlace, PlaceChoice

THERE = (
    KnownPlace("desk1", ("left",), {"board": "alif-e8-hp", "room": "2.17"}),
    KnownPlace("desk2", (), {"board": "alif-e8-hp"}),
    KnownPlace("rack", (), {}),
)
BORROWED = BorrowedPlace("desk1", "host/me", "rfc2217://farm:4000", "farm:3333", "", has_power=False)
CHOICES = {
    "desk1": ["desk1"],
    "rack+desk1": ["rack", "desk1"],
    "desk1+desk2+desk1": ["desk1", "desk2"],
    "left+desk1": ["desk1"],
    "board=alif-e8-hp": ["desk1", "desk2"],
    "board=alif-e8-hp+room=2.17": ["desk1"],
}
NO_CHOICES = ["", "+", "desk1+", "board=", "board=x+desk1", "Board=x", "board=a b", "desk1+desk3", "board=x+room=1"]
ALIF = find_board("alif-e8-hp")
POWER = Power(on=("a",), off=("b",), settle=7.0)


def names_of(text: str) -> list[str]:
    return [place.name for place in PlaceChoice.parse(text).among(THERE, "127.0.0.1:20408")]


def test_names_aliases_and_tags_choose_places() -> None:
    assert {text: names_of(text) for text in CHOICES} == CHOICES
    for text in CHOICES:
        assert PlaceChoice.parse(str(PlaceChoice.parse(text))) == PlaceChoice.parse(text)


@pytest.mark.parametrize(
    ("changes", "power"),
    [
        ({}, POWER),  # its file's switch is of another bench
        ({"has_power": True}, POWER),
        ({"has_power": True}, None),
        ({"gdb": None}, None),
        ({"dialect": "openocd"}, None),
    ],
    ids=["no power", "power", "power of an unknown time", "no probe", "another server"],
)
def test_where_a_board_is_comes_from_its_place(
    changes: dict[str, Any], power: Power | None, recorded: Recorded
) -> None:
    file = dataclasses.replace(ALIF, power=power)
    board = dataclasses.replace(BORROWED, **changes).board(file, ("switch", "desk1"))
    assert dataclasses.replace(board, link=file.link, loading=file.loading, power=power) == file
    recorded.check([board.link, board.loading, board.power])


WRONG: dict[str, Callable[[], object]] = {
    **{text: lambda text=text: names_of(text) for text in NO_CHOICES},  # type: ignore[misc]
    "a place without a board": lambda: THERE[2].board,
    "a server of an unknown dialect": lambda: dataclasses.replace(BORROWED, dialect="ocd").board(ALIF, ()),
}


def test_what_is_no_place_of_a_board_is_told(recorded: Recorded) -> None:
    assert THERE[0].board == "alif-e8-hp"
    recorded.check_refusals(WRONG, lambda name: WRONG[name]())
