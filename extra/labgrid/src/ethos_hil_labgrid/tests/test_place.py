"""Protects how places are named, and that a place says where its board is, whatever the board's file says."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ethos_hil.base.errors import EthosHilError
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
POWER = Power(on=("a",), off=("b",), settle=7.0)


def names_of(text: str) -> list[str]:
    return [place.name for place in PlaceChoice.parse(text).among(THERE, "127.0.0.1:20408")]


@pytest.mark.parametrize("text", CHOICES)
def test_names_aliases_and_tags_choose_places(text: str) -> None:
    assert names_of(text) == CHOICES[text]
    assert PlaceChoice.parse(str(PlaceChoice.parse(text))) == PlaceChoice.parse(text)


@pytest.mark.parametrize("text", NO_CHOICES)
def test_what_chooses_no_place_is_told(text: str, recorded: Recorded) -> None:
    with pytest.raises(EthosHilError) as caught:
        names_of(text)
    recorded.check(f"{type(caught.value).__name__}: {caught.value.message}\n{caught.value.hint}")


def test_a_place_without_a_board_is_told(recorded: Recorded) -> None:
    assert THERE[0].board == "alif-e8-hp"
    with pytest.raises(EthosHilError) as caught:
        _ = THERE[2].board
    recorded.check(f"{type(caught.value).__name__}: {caught.value.message}\n{caught.value.hint}")


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
    file = dataclasses.replace(find_board("alif-e8-hp"), power=power)
    board = dataclasses.replace(BORROWED, **changes).board(file, ("switch", "desk1"))
    assert dataclasses.replace(board, link=file.link, loading=file.loading, power=power) == file
    recorded.check([board.link, board.loading, board.power])


def test_a_gdb_server_of_an_unknown_dialect_is_told(recorded: Recorded) -> None:
    with pytest.raises(EthosHilError) as caught:
        dataclasses.replace(BORROWED, dialect="ocd").board(find_board("alif-e8-hp"), ())
    recorded.check(f"{type(caught.value).__name__}: {caught.value.message}\n{caught.value.hint}")
