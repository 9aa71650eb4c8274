"""Dataclasses from JSON: nothing is converted silently, and an error says where it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

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


def test_a_number_stays_as_it_is_written() -> None:
    assert type(from_json(Whole, {"parts": [], "rate": 3}).rate) is int


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": [{"name": "a"}, {"name": "b", "count": "2"}]}, "parts[1].count: '2' is not int"),
        ({"parts": [{"name": "a", "count": True}]}, "parts[0].count: True is not int"),
        ({"parts": [{"name": "a", "count": 1.0}]}, "parts[0].count: 1.0 is not int"),
        ({"parts": [{"name": "a", "count": 1 << 65}]}, "parts[0].count: 36893488147419103232 is not int"),
        ({"parts": [{"count": 1}]}, "parts[0].name: there is no 'name'"),
        ({"parts": [{"name": None}]}, "parts[0].name: None is not str"),
        ({"rate": "fast"}, "rate: 'fast' is not a number"),
        ({"rate": True}, "rate: True is not a number"),
        ({"exact": 1}, "exact: 1 is not bool"),
        ({"verdict": "perhaps"}, "verdict: 'perhaps' is not a valid Verdict"),
        ({"texts": {"b": 7}}, "texts['b']: 7 is not str"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        from_json(Whole, {"parts": [], **change})
    assert str(refused.value) == message


def test_what_was_always_written_is_needed_though_it_has_a_default() -> None:
    with pytest.raises(ValueError, match="there is no 'rate'"):
        from_json(Whole, {"parts": []}, ("rate",))
