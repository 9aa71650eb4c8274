"""TOML files of users: the line of what is wrong; what would take minutes is refused."""

from __future__ import annotations

import json
from pathlib import Path

from ethos_hil.base.checked_toml import CheckedToml, line_of, read_checked
from ethos_hil.base.testing.recorded import Recorded

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"part": {"type": "array", "items": {"properties": {"size": {"type": "integer"}}}}},
}


def checked(folder: Path, text: str) -> CheckedToml:
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "it.toml").write_text(text)
    return read_checked(folder / "it.toml", folder / "schema.json", "read the manual")


def test_lines_are_counted_in_lists_of_tables_and_in_tables_in_tables() -> None:
    text = "a = 1\n[[suite]]\none_in = 1\n\n[ [suite]]\n[[suite]] # the second\n'one_in' = 2\n"
    lists: list[list[str | int]] = [["suite", 1, "one_in"], ["suite", 1], ["gone"]]
    assert [line_of(text, place) for place in lists] == [7, 6, 1]
    text = "[a]\nb = 1\n[a.b.'c d']\nbase = 1\n[sources]\n\"a.b\" = 2\n"
    places: list[list[str | int]] = [["a", "b", "c d", "base"], ["a", "b", "e"], ["sources", "a.b"]]
    assert [line_of(text, place) for place in places] == [4, 2, 6]


def test_what_is_right_keeps_its_lines(tmp_path: Path) -> None:
    document = checked(tmp_path, "[[part]]\nday = 2026-11-25\n[[part]]\nsize = 3\n")
    assert document.data == {"part": [{"day": "2026-11-25"}, {"size": 3}]}
    assert document.line_of("part", 1, "size") == f"{tmp_path}/it.toml:4"


def test_what_is_wrong_is_said_with_its_line_and_the_document(tmp_path: Path, recorded: Recorded) -> None:
    recorded.check_refusals([
        "[[part]]\n[[part]]\nsize = 'x'\n", "pary = 1\n", f"a = {'[' * 5000}\n", f"a = {'{a=' * 3000}\n",
        f"a = '{'b' * 9_995}'\n", f"a = '{'b' * 9_994}'\n", "#" + " \n" * (1 << 19), "part = \n",
    ], lambda text: checked(tmp_path, text), folders=[tmp_path])  # fmt: skip
    recorded.check_refusals(
        ["gone.toml"], lambda name: read_checked(tmp_path / name, {}, "see"), name="gone", folders=[tmp_path]
    )
