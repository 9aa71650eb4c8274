"""The JSON of github-action-benchmark."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jsonschema

from ethos_hil.base.plain_text import one_line
from ethos_hil.results.export.runs import github_benchmark
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.run_results import RunResults

TEXT = {"type": "string"}


def closed(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


POINT = closed(("name", "unit", "value"), name=TEXT, unit=TEXT, value={"type": "number"}, range=TEXT, extra=TEXT)


def points(results: RunResults) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(github_benchmark.write(results, None))
    jsonschema.validate(entries, {"type": "array", "items": POINT})
    return entries


def test_a_point_has_a_name_that_stays_and_its_verdict() -> None:
    first, second, *_ = points(samples.run(samples.record()))
    assert first == {
        "name": "suites/ops/test_a.py::test_add_same_U55_BI [ethos-u55-128, Shared_Sram, virtual]: "
        "npu_cycles (modelled)",
        "unit": "cycles",
        "value": (1 << 24) + 1,
        "range": "16777217 to 16777219",
        "extra": f"verified\nstream {'56' * 32}\ntorch 2.13.0\nethos-u-vela 5.1.0",
    }
    assert "range" not in second
    later = dataclasses.replace(samples.record(), created="", versions={}, artifact=None)
    assert [point["name"] for point in points(samples.run(later))] == [
        point["name"] for point in points(samples.run(samples.record()))
    ]


def test_no_two_points_have_one_name_and_failures_have_none() -> None:
    records = samples.record(), samples.record(method="decode"), samples.record(npu="ethos-u65-256")
    entries = points(samples.run(*records, samples.failed(name="sub")))
    assert len({entry["name"] for entry in entries}) == len(entries) == 12
    assert not [entry for entry in entries if "sub" in entry["name"]]


def test_numbers_are_exact_and_text_is_on_one_line() -> None:
    entries = points(samples.hostile())
    assert [entry["value"] for entry in entries] == list(samples.NUMBERS)
    assert {entry["unit"] for entry in entries} == {one_line(samples.HOSTILE)}
    assert all("\n" not in entry["name"] for entry in entries)
