"""Documents of others. Dataclasses from JSON: nothing is converted silently, and an error says where it is. TOML files
of users: the line of what is wrong; what would take minutes is refused. And our dataclasses are the standard library's.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ethos_hil.base import dataclasses as ours
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


# --- The dataclasses of ethos_hil.base.dataclasses are those of the standard library, which is the oracle.


def _classes(dataclass: Any) -> list[type]:
    @dataclass(frozen=True)
    class Base:
        values: int
        name: str = "a"
        parts: list[int] = dataclasses.field(default_factory=list, hash=False)
        seen: int = dataclasses.field(default=3, compare=False, repr=False)
        made: str = dataclasses.field(default_factory=str, init=False)
        kinds: ClassVar[int] = 3

        @functools.cached_property
        def twice(self) -> int:
            return 2 * self.values

        def __post_init__(self) -> None:
            if self.values < 0:
                raise ValueError("less than 0")

    @dataclass(frozen=True, kw_only=True)
    class Derived(Base):
        more: float | None = None

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Derived) and self.values == other.values

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True, eq=False)
    class One:
        values: int

    return [Base, Derived, One]


def _behaviour(cls: Any) -> list[Any]:
    """Return all that can be seen of a class with a first field `values`."""
    results: list[Any] = [
        inspect.signature(cls), cls.__match_args__, cls.__dataclass_params__.frozen,
        [(part.name, part.type, part.kw_only) for part in dataclasses.fields(cls)],
    ]  # fmt: skip
    one, other = cls(1), cls(2)
    actions: tuple[Callable[[], object], ...] = (
        lambda: (repr(one), repr(other)), lambda: (one == cls(1), one == other, one == 1, one != cls(1)),
        lambda: (hash(one) == hash(cls(1)), hash(one) == hash(other)), lambda: dataclasses.replace(one, values=5),
        lambda: dataclasses.asdict(one), lambda: one.twice, lambda: cls(-1), lambda: cls(), lambda: cls(1, 2, [], 3, 4),
        lambda: setattr(one, "values", 2), lambda: setattr(one, "new", 2), lambda: delattr(one, "values"),
        lambda: one.values, lambda: one.parts is other.parts,
        lambda: dataclasses.dataclass(frozen=False)(type("Thawed", (cls,), {})),
    )  # fmt: skip
    for action in actions:
        try:
            results.append(action())
        except Exception as error:
            results.append((type(error), str(error)))
    return results


@pytest.mark.parametrize("number", range(3))
def test_a_class_is_as_the_standard_library_would_make_it(number: int) -> None:
    made, expected = _classes(ours.dataclass)[number], _classes(dataclasses.dataclass)[number]
    assert [str(part) for part in _behaviour(made)] == [str(part) for part in _behaviour(expected)]
