"""TOML files of users: the line of what is wrong; what would take minutes is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.checked_toml import CheckedToml, line_of, read_checked
from ethos_hil.base.errors import UsageError

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"part": {"type": "array", "items": {"properties": {"size": {"type": "integer"}}}}},
}


def checked(folder: Path, text: str) -> CheckedToml:
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "it.toml").write_text(text)
    return read_checked(folder / "it.toml", folder / "schema.json", "read the manual")


@pytest.mark.parametrize("place", [["suite", 1, "one_in"], ["suite", 1], ["gone"]])
def test_lines_are_counted(place: list[str | int]) -> None:
    text = "a = 1\n[[suite]]\none_in = 1\n\n[ [suite]]\n[[suite]] # the second\n'one_in' = 2\n"
    assert line_of(text, place) == {3: 7, 2: 6, 1: 1}[len(place)]


def test_tables_in_tables_have_lines() -> None:
    text = "[a]\nb = 1\n[a.b.'c d']\nbase = 1\n[sources]\n\"a.b\" = 2\n"
    places: list[list[str | int]] = [["a", "b", "c d", "base"], ["a", "b", "e"], ["sources", "a.b"]]
    assert [line_of(text, place) for place in places] == [4, 2, 6]


def test_what_is_right_keeps_its_lines(tmp_path: Path) -> None:
    document = checked(tmp_path, "[[part]]\nday = 2026-11-25\n[[part]]\nsize = 3\n")
    assert document.data == {"part": [{"day": "2026-11-25"}, {"size": 3}]}
    assert document.line_of("part", 1, "size") == f"{tmp_path}/it.toml:4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[part]]\n[[part]]\nsize = 'x'\n", "it.toml:3: part[2].size: 'x' is not of type 'integer'"),
        ("pary = 1\n", "it.toml:1: pary is not known: did you mean part?"),
        (f"a = {'[' * 5000}\n", "it.toml is not TOML: arrays or tables are nested too deeply"),
        (f"a = {'{a=' * 3000}\n", "it.toml is not TOML: arrays or tables are nested too deeply"),
        (f"a = '{'b' * 9_995}'\n", "it.toml is not TOML: a line has more than 10,000 characters"),
        (f"a = '{'b' * 9_994}'\n", "it.toml:1: a is not known"),
        ("#" + " \n" * (1 << 19), "it.toml cannot be read: it has 1,048,577 bytes, at most 1,048,576 are read"),
        ("part = \n", "it.toml is not TOML: Invalid value (at line 1, column 8)"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_the_document(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        checked(tmp_path, text)
    assert message in error.value.message
    assert error.value.hint == "read the manual"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone.toml cannot be read: No such file"):
        read_checked(tmp_path / "gone.toml", tmp_path / "schema.json", "")
