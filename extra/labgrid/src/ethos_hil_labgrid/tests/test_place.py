"""Protects how places are named, and that a place says where its board is, whatever the board's file says."""

from __future__ import annotations

import dataclasses

import pytest

from ethos_hil.base.errors import TargetNotAvailable, UsageError
from ethos_hil.harness.boards.board import Power, Server
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil_labgrid.place import BorrowedPlace, KnownPlace, PlaceChoice

THERE = (
    KnownPlace("desk1", ("left",), {"board": "alif-e8-hp", "room": "2.17"}),
    KnownPlace("desk2", (), {"board": "alif-e8-hp"}),
    KnownPlace("rack", (), {}),
)
AT = "127.0.0.1:20408"
BORROWED = BorrowedPlace("desk1", "host/me", "rfc2217://farm:4000", "farm:3333", "", has_power=False)


@pytest.mark.parametrize(
    ("text", "names", "tags"),
    [
        ("desk1", ("desk1",), ()),
        ("desk1+desk2+desk1", ("desk1", "desk2"), ()),
        ("board=alif-e8-hp", (), (("board", "alif-e8-hp"),)),
        ("board=alif-e8-hp+room=2.17", (), (("board", "alif-e8-hp"), ("room", "2.17"))),
    ],
)
def test_choices(text: str, names: tuple[str, ...], tags: tuple[tuple[str, str], ...]) -> None:
    choice = PlaceChoice.parse(text)
    assert (choice.names, choice.tags) == (names, tags)
    assert PlaceChoice.parse(str(choice)) == choice


@pytest.mark.parametrize("text", ["", "+", "desk1+", "board=", "board=x+desk1", "Board=x", "board=a b"])
def test_what_is_no_choice(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        PlaceChoice.parse(text)
    assert f"labgrid:{text}" in caught.value.message
    assert "write labgrid:PLACE" in str(caught.value.hint)


def names_of(text: str) -> list[str]:
    return [place.name for place in PlaceChoice.parse(text).among(THERE, AT)]


def test_names_aliases_and_tags_choose_places() -> None:
    assert names_of("rack+desk1") == ["rack", "desk1"]
    assert names_of("left+desk1") == ["desk1"]
    assert names_of("board=alif-e8-hp") == ["desk1", "desk2"]
    assert names_of("board=alif-e8-hp+room=2.17") == ["desk1"]


def test_a_name_that_is_not_there_has_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"no place at 127\.0\.0\.1:20408 is called 'desk3'") as caught:
        names_of("desk1+desk3")
    assert str(caught.value.hint).startswith("did you mean desk")
    assert "places: desk1, desk2, rack; docs/farm.md" in str(caught.value.hint)


def test_tags_that_no_place_has() -> None:
    with pytest.raises(TargetNotAvailable, match=r"no place at .* has the tags board=alif-e8-hp\+room=1") as caught:
        names_of("board=alif-e8-hp+room=1")
    assert "set-tags board=alif-e8-hp room=1`" in str(caught.value.hint)


def test_a_place_without_a_board() -> None:
    assert THERE[0].board == "alif-e8-hp"
    with pytest.raises(TargetNotAvailable, match="the place rack does not say which board it has") as caught:
        _ = THERE[2].board
    assert "labgrid-client -p rack set-tags board=NAME" in str(caught.value.hint)


def test_where_a_board_is_comes_from_its_place() -> None:
    file = find_board("alif-e8-hp")
    elsewhere = dataclasses.replace(file, power=Power(on=("a",), off=("b",), settle=7.0))
    board = BORROWED.board(elsewhere, ("switch", "desk1"))
    assert board.link == dataclasses.replace(file.link, url="rfc2217://farm:4000")
    assert (board.loading.server, board.loading.address) == (Server.RUNNING, "farm:3333")
    assert board.loading.dialect is file.loading.dialect
    assert board.power is None, "its file's switch is of another bench"
    assert dataclasses.replace(board, link=file.link, loading=file.loading, power=file.power) == file


def test_a_place_with_power_keeps_the_time_that_the_board_needs() -> None:
    file = find_board("alif-e8-hp")
    switched = dataclasses.replace(BORROWED, has_power=True)
    slow = dataclasses.replace(file, power=Power(on=("a",), off=("b",), settle=7.0))
    assert switched.board(slow, ("switch",)).power == Power(cycle=("switch",), settle=7.0)
    assert switched.board(dataclasses.replace(file, power=None), ("switch",)).power == Power(
        cycle=("switch",), settle=2.0
    )


@pytest.mark.parametrize(("gdb", "server"), [(None, Server.NONE), ("farm:3333", Server.RUNNING)])
def test_a_place_without_a_gdb_server_is_a_board_without_a_probe(gdb: str | None, server: Server) -> None:
    board = dataclasses.replace(BORROWED, gdb=gdb).board(find_board("alif-e8-hp"), ())
    assert (board.loading.server, board.loading.address) == (server, gdb)


def test_a_place_may_have_another_gdb_server_than_the_file() -> None:
    board = dataclasses.replace(BORROWED, dialect="openocd").board(find_board("alif-e8-hp"), ())
    assert board.loading.dialect is ServerDialect.OPENOCD
    with pytest.raises(TargetNotAvailable, match="the GdbServer of the place desk1 has the dialect 'ocd'") as caught:
        dataclasses.replace(BORROWED, dialect="ocd").board(find_board("alif-e8-hp"), ())
    assert "openocd" in str(caught.value.hint)
