"""Dataclasses from JSON: nothing is converted silently, and an error says where it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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


def test_a_number_stays_as_it_is_written() -> None:
    assert type(from_json(Whole, {"parts": [], "rate": 3}).rate) is int


def test_a_value_of_another_type_is_refused_with_its_place(recorded: Recorded) -> None:
    recorded.check_refusals([
        {"parts": [{"name": "a"}, {"name": "b", "count": "2"}]}, {"parts": [{"name": "a", "count": True}]},
        {"parts": [{"name": "a", "count": 1.0}]}, {"parts": [{"name": "a", "count": 1 << 65}]},
        {"parts": [{"count": 1}]}, {"parts": [{"name": None}]}, {"rate": "fast"}, {"rate": True}, {"exact": 1},
        {"verdict": "perhaps"}, {"texts": {"b": 7}},
    ], lambda change: from_json(Whole, {"parts": [], **change}), ValueError)  # fmt: skip
    # What was always written is needed though it has a default.
    recorded.check_refusals([("rate",)], lambda always: from_json(Whole, {"parts": []}, always), ValueError, name="new")
