"""Documents of others. Dataclasses from JSON: nothing is converted silently, and an error says where it is. TOML files
of users: the line of what is wrong; what would take minutes is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.checked_toml import CheckedToml, line_of, read_checked
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import Verdict


@dataclass(frozen=True)
class Part:
    name: str
    count: int = 0


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    rate: float = 0.0
    exact: bool = False
    verdict: Verdict = Verdict.FAILED
    texts: Mapping[str, str] | None = None


def test_a_document_becomes_its_dataclass_and_unknown_fields_are_left_out() -> None:
    data = {"parts": [{"name": "a", "count": 2, "later": 1}], "rate": "inf", "verdict": "verified", "texts": {"b": "c"}}
    assert from_json(Whole, data) == Whole((Part("a", 2),), math.inf, verdict=Verdict.VERIFIED, texts={"b": "c"})

    assert type(from_json(Whole, {"parts": [], "rate": 3}).rate) is int, "a number stays as it is written"


def test_a_value_of_another_type_is_refused_with_its_place(recorded: Recorded) -> None:
    recorded.check_refusals([
        {"parts": [{"name": "a"}, {"name": "b", "count": "2"}]}, {"parts": [{"name": "a", "count": True}]},
        {"parts": [{"name": "a", "count": 1.0}]}, {"parts": [{"name": "a", "count": 1 << 65}]},
        {"parts": [{"count": 1}]}, {"parts": [{"name": None}]}, {"rate": "fast"}, {"rate": True}, {"exact": 1},
        {"verdict": "perhaps"}, {"texts": {"b": 7}},
    ], lambda change: from_json(Whole, {"parts": [], **change}), ValueError)  # fmt: skip
    # What was always written is needed though it has a default.
    recorded.check_refusals([("rate",)], lambda always: from_json(Whole, {"parts": []}, always), ValueError, name="new")


SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"part": {"type": "array", "items": {"properties": {"size": {"type": "integer"}}}}},
}


def checked(folder: Path, text: str) -> CheckedToml:
    (folder / "it.toml").write_text(text)
    return read_checked(folder / "it.toml", SCHEMA, "read the manual")


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
