"""The JSON of PyTorch's benchmark database and of github-action-benchmark."""

from __future__ import annotations

import dataclasses
import json
import struct
from typing import Any

import jsonschema
import pytest

from ethos_hil.base.plain_text import escape, one_line
from ethos_hil.base.record import ArtifactInfo, Metric
from ethos_hil.results.export.runs import github_benchmark, pytorch_benchmark
from ethos_hil.results.export.runs.tests import samples
from ethos_hil.results.run_results import RunResults

TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def closed(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


def whole(bits: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": (1 << bits) - 1}


V3 = closed(
    ("metric", "schema_version"),
    timestamp=whole(64), schema_version={"const": "v3"}, name=TEXT, repo=TEXT, head_branch=TEXT, head_sha=TEXT,
    workflow_id=whole(64), run_attempt=whole(32), job_id=whole(64),
    runners={"type": "array", "items": closed(
        name=TEXT, type=TEXT, cpu_info=TEXT, cpu_count=whole(32), mem_info=TEXT, avail_mem_in_gb=whole(32),
        gpu_info=TEXT, gpu_count=whole(32), gpu_mem_info=TEXT, avail_gpu_mem_in_gb=whole(32), extra_info=TEXTS)},
    benchmark=closed(("name",), name=TEXT, mode=TEXT, dtype=TEXT, extra_info=TEXTS),
    model=closed(("name",), name=TEXT, type=TEXT, backend=TEXT, origins={"type": "array", "items": TEXT},
                 extra_info=TEXTS),
    inputs={"type": "object", "additionalProperties": closed(dtype=TEXT, extra_info=TEXTS)},
    dependencies={"type": "object", "additionalProperties": closed(repo=TEXT, branch=TEXT, sha=TEXT, version=TEXT,
                                                                    extra_info=TEXTS)},
    metric=closed(("name", "benchmark_values"), name=TEXT, benchmark_values={"type": "array", "minItems": 1, "items": {
        "type": "number"}}, target_value={"type": "number"}, extra_info=TEXTS),
)  # fmt: skip
"""The table oss_ci_benchmark_v3 of pytorch/test-infra (clickhouse_db_schema, read in 2026) as a schema of JSON."""


def v3(results: RunResults) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(pytorch_benchmark.write(results, None))
    jsonschema.validate(entries, {"type": "array", "items": V3})
    return entries


@pytest.mark.parametrize(
    "wrong",
    [{"metric": {"name": "a", "benchmark_values": []}}, {"schema_version": "v2"}, {"timestamp": -1}, {"also": 1},
     {"benchmark": {"name": "a", "extra_info": {"b": 1}}}],
)  # fmt: skip
def test_the_schema_refuses_what_the_table_does_not_take(wrong: dict[str, Any]) -> None:
    (right, *_) = v3(samples.run(samples.record()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(right | wrong, V3)


def test_a_record_has_an_object_for_each_metric() -> None:
    first, *others = v3(samples.run(samples.record()))
    assert [entry["metric"]["name"] for entry in others] == ["npu_cycles_estimate", "sram_used", "target_seconds"]
    assert first.pop("metric") == {
        "name": "npu_cycles",
        "benchmark_values": [(1 << 24) + 1, (1 << 24) + 3],
        "extra_info": {"unit": "cycles", "provenance": "modelled", "exact": "16777217",
                       "exact_samples": "16777217 16777219"},
    }  # fmt: skip
    assert first == {
        "timestamp": 1795600972,
        "schema_version": "v3",
        "name": "ethos-hil",
        "head_sha": "f0" * 20,
        "runners": [{"name": "vm", "type": "Linux", "cpu_info": "a processor", "cpu_count": 2}],
        "benchmark": {
            "name": "ethos-hil", "mode": "inference", "dtype": "int8",
            "extra_info": {
                "npu": "ethos-u55-128", "memory_mode": "Shared_Sram", "system_config": "Ethos_U55_High_End_Embedded",
                "target": "virtual", "soc": "corstone-300", "method": "forward", "verdict": "verified",
                "scheme": "a8w8", "question": "12" * 32, "stream_sha256": "56" * 32, "run": "20261125T100247Z-c394cb",
            },
        },
        "model": {
            "name": "suites/ops/test_a.py::test_add_same_U55_BI", "type": "micro-benchmark", "backend": "ethos-u",
            "origins": ["pytorch"], "extra_info": {"operator": "add", "case": "same", "profile": "U55_BI"},
        },
        "dependencies": {"torch": {"repo": "pytorch/pytorch", "version": "2.13.0"},
                         "ethos-u-vela": {"repo": "", "version": "5.1.0"}},
    }  # fmt: skip


@pytest.mark.parametrize("number", [(1 << 24) + 1, 76_445_795, (1 << 53) - 1, 1 / 3, 1e-9])
def test_a_number_that_the_table_rounds_is_there_exactly_as_text(number: float) -> None:
    """The table has Float32: 76,445,795 becomes 76,445,792 in it."""
    (entry,) = v3(samples.run(samples.record(metrics=(Metric("a", number, "", "modelled"),))))
    (stored,) = entry["metric"]["benchmark_values"]
    assert struct.unpack("f", struct.pack("f", stored))[0] != number
    assert float(entry["metric"]["extra_info"]["exact"]) == number


@pytest.mark.parametrize("ending", ["failed", "internal", "known defect"])
def test_a_failure_is_a_report_and_its_numbers_do_not_count(ending: str) -> None:
    (entry,) = v3(samples.run(samples.endings()[ending]))
    assert (entry["metric"]["name"], entry["metric"]["benchmark_values"]) == ("FAILURE_REPORT", [0])
    assert entry["metric"]["extra_info"]["kind"] == ("internal" if ending == "internal" else "mismatch")
    assert entry["metric"]["extra_info"]["ending"] == ("failed" if ending == "internal" else ending)


@pytest.mark.parametrize(
    ("scheme", "dtype"),
    [("a8w8", "int8"), ("a16w8", "int16"), ("a8w8, a16w8 in head", "int8"), ("quantizer Mine", "quantizer Mine"),
     ("", "")],
)  # fmt: skip
def test_the_type_follows_from_how_it_is_quantised(scheme: str, dtype: str) -> None:
    entry, *_ = v3(samples.run(samples.record(artifact=ArtifactInfo("", 0, 0, (), scheme=scheme))))
    assert entry["benchmark"]["dtype"] == dtype


def test_models_and_odd_runs_are_told_too() -> None:
    model = samples.record(test=None, artifact=None, created="no time", run=None, model="net.py:net")
    entry, *_ = v3(samples.run(model, dataclasses.replace(model, npu="ethos-u65-256"), created="neither", manifests=()))
    assert (entry["timestamp"], entry["runners"], "head_sha" in entry) == (0, [], False)
    assert (entry["model"]["name"], entry["model"]["type"]) == ("net.py:net[ethos-u55-128]", "model")


def test_foreign_text_is_escaped() -> None:
    entries = v3(samples.hostile())
    assert entries[0]["model"]["extra_info"]["operator"] == escape(samples.HOSTILE)
    assert entries[-1]["metric"]["extra_info"]["message"] == escape(samples.HOSTILE)
    assert all(list(line) == ["{"] for line in pytorch_benchmark.write(samples.hostile(), None).splitlines()[1:-1]
               for line in [line[:1]])  # fmt: skip


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
