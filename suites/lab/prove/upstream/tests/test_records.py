"""Results files, the list of diagnosed failures, samples: the parts that run no test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.suites.lab.prove.upstream import table
from ethos_hil.suites.lab.prove.upstream.records import (
    DeviceCall,
    Known,
    TestResult,
    append,
    load,
    npu_of,
    read,
    stale,
)


def result(item: str, outcome: str = "passed", **fields: object) -> TestResult:
    values = {"npu": npu_of(item) or "", "outcome": outcome, **fields}
    return TestResult(id=item, seconds=1.0, build="", **values)  # type: ignore[arg-type]


def test_npu_is_read_from_the_tests_name() -> None:
    items = ("test_add_tensor_u55_INT[1d]", "test_add_u85_INT_16a8w[5d]", "TestX::test_U65", "test_x[menu55]")
    assert [npu_of(f"ops/test_u55.py::{item}") for item in items] == ["u55", "u85", "u65", None]


def test_results_survive_an_interrupt_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    first = result("a.py::test_u55", calls=(DeviceCall("FVP", 0.5, 0),))
    append(path, first)
    with path.open("a") as file:
        file.write(result("b.py::test_u55").to_line()[:40])
    assert read(path) == {first.id: first}
    append(path, result("b.py::test_u55"))
    assert list(read(path)) == ["a.py::test_u55", "b.py::test_u55"]


def test_an_entry_whose_tests_pass_is_stale_and_one_that_was_not_run_is_not() -> None:
    entries = [Known(f"a.py::test_{name}_u55", "ours", "seen") for name in ("fails", "passes", "absent")]
    results = [result("a.py::test_fails_u55", "failed"), result("a.py::test_passes_u55")]
    assert stale(results, entries) == [entries[1]]


@pytest.mark.parametrize(
    "text",
    ['test = "a"\nevidence = "b"', 'test = "a"\nevidence = "b"\ndiagnosis = "bad luck"', 'test = "a"', 'tset = "a"'],
)
def test_an_entry_without_diagnosis_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(f"[[known]]\n{text}\n")
    with pytest.raises(UsageError, match="needs test, diagnosis and evidence"):
        load(path)


def test_the_table_counts_what_failed_and_names_what_is_not_diagnosed(recorded: Recorded) -> None:
    results = [result("ops/test_a.py::test_a_u55[1]"), result("ops/test_a.py::test_a_u55[2]", "failed", message="boom")]
    recorded.check(table.markdown(json.loads(json.dumps(table.to_json(results, [], {"tests": 2})))))


def test_a_test_that_passes_with_other_outputs_than_the_references_is_wrong() -> None:
    passed = result(
        "a.py::test_u55", calls=(DeviceCall("FVP", 1.0, 0, True), DeviceCall("FVP", 1.0, 0, False, "output 0: 1 of 9"))
    )
    assert passed.wrong
    assert not passed.failed
    assert passed.problem == "differs from the reference: output 0: 1 of 9"
    assert not result("a.py::test_u55", calls=(DeviceCall("FVP", 1.0, 0, None, "no reference"),)).wrong
