"""The words for failures that the documents list are those that the program has."""

from __future__ import annotations

import re

from blocks import ROOT

from ethos_hil.base.verdict import NOT_ATTEMPTED, FailureKind

ROW = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)


def section(document: str, begin: str, end: str) -> str:
    text = (ROOT / "docs" / document).read_text("utf-8")
    assert text.count(begin) == 1
    return text.split(begin)[1].split(end)[0]


def test_the_formats_list_every_kind_once() -> None:
    table = section("formats.md", "| `mismatch` |", "\n\n")
    assert sorted(["mismatch", *ROW.findall(table)]) == sorted(FailureKind)


def test_the_formats_list_the_kinds_of_a_spoilt_attempt() -> None:
    listed = section("formats.md", "an attempt that the target has spoilt (", ")")
    assert set(re.findall(r"`([a-z-]+)`", listed)) == set(NOT_ATTEMPTED)


def test_the_failures_of_boards_are_kinds() -> None:
    kinds = ROW.findall(section("boards.md", "## What each failure looks like", "\n## "))
    assert len(kinds) == len(set(kinds))
    assert set(kinds) <= set(FailureKind)
    assert {"probe", "readback", "wrong-board", "lost-board", "leased", "link", "timeout", "not-launched"} <= set(kinds)
