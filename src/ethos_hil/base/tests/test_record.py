"""The record's JSON: what other programs build on."""

from __future__ import annotations

import dataclasses
import json
import math

from ethos_hil.base import inference_profile as figures
from ethos_hil.base import program_info, record
from ethos_hil.base.clock import StatedClock
from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict

RECORD = Record(
    verdict=Verdict.FAILED, model="model.py:build", npu="ethos-u55-128",
    target=record.TargetInfo("virtual", "virtual", "corstone-300", ("bus", "uart")),
    failure=Failure(FailureKind.MISMATCH, "3 of 10 elements differ", "look"),
    divergence=record.Divergence(
        "npu-op", "npu00000 is wrong", "replay", 1, "npu00000", "Conv2D", "CONV2D", ("aten.convolution.default",),
        "stem.0", "model.py:12", "tosa_rescale_default", (1, 4, 4, 2), "INT8", (0, 1, 2, 1), -3, 4, 5, True,
    ),
    outputs=(record.Output("output 0", (1, 10), "float32", "tosa_reference_model", 10, 3, math.inf, "[0, 4]", 0.25),),
    accuracy=(record.Accuracy("output 0", "PyTorch, float64", -math.inf, None, math.inf, (0, 4), 1.5, math.inf),),
    metrics=(record.Metric("npu_cycles", 1234, "cycles", "modelled", (1234, 1235)),),
    ops=(record.Op(
        "npu0", "Conv2D", "CONV2D", ("aten.conv2d.default",), "stem", "net.py:12", 7, "modelled", ("net.py:12",)
    ),),
    artifact=program_info.ArtifactInfo(
        "ab" * 32, 4096, 1, ("quantized_decomposed::quantize_per_tensor.out",), question="12" * 32,
        delegates=(program_info.DelegateInfo(1, "34" * 32, "56" * 32, "78" * 32),), lowering="ef" * 8, key="fe" * 32,
    ),
    versions={"torch": "2.13.0"}, executions=1, notes=("a table was moved",), memory_mode="Shared_Sram",
    runner=record.RunnerInfo("arm_executor_runner", "cd" * 32),
    preflight=(record.Check("scratch", "9 bytes", "8 bytes of SRAM", "fail", "a smaller input"),),
    test=record.SuiteTest("suites/ops/test_a.py::test_add_same_BI", "add", "same", "BI", "suites/ops/test_a.py:13"),
    profile=figures.InferenceProfile(
        clock_hz=500e6, macs_per_cycle=128, timeline_from="modelled",
        costs={"npu0": figures.OpCost(
            macs=9, port_cycles=(1, 2), traffic=(figures.Traffic("Sram", 0, "ifm", 4, 0),), ifm=(1, 2, 3)
        )},
        cpu=(figures.CpuRow("cpu00001.kernel", 1, "kernel", "aten::sort.values", 20, "instructions", "instructions"),),
        timeline=(figures.Slice("npu", "Conv2D", 0, 7, "npu0", 5, (1, 2), (3, 4)),),
        buffers=(figures.Buffer(1, "Sram", "conv", "npu0", 16, 0, 1),), edges=(figures.Edge("input 0", "npu0", 16),),
        memories={"Sram": figures.MemoryBehind(8.0, 4048)},
    ),
    created="2026-11-24T09:30:00+00:00", clock_hz=500e6,
    firmware_sha256="9a" * 32, timing_model="bc" * 8, inputs_sha256="de" * 32, timing_adapters="reset",
    run=record.RunInfo("20261124T093000Z-123456", "f0" * 20, True, "2/4"),
    bench=record.BenchInfo("default", "conv3x3_56x56x64", "conv3x3", ("long",), "grid.toml:12"),
    clock=StatedClock(400e6, "Alif Ensemble E8, HP", 400e6),
    board=record.BoardRun(
        "000123", "pyocd", "/dev/ttyACM0", 921600, 400_000_000, 400_000_000, True, 0.5, 9000, 0.1, 4, 1, 2, 5, True
    ),
)  # fmt: skip


def test_json_has_the_documented_fields(recorded: Recorded) -> None:
    data = json.loads(RECORD.dumps())
    recorded.check("\n".join(f"{name}: {json.dumps(value)}" for name, value in data.items()))


def test_a_record_survives_json_whole_and_unknown_fields_are_left_out() -> None:
    data = json.loads(RECORD.dumps())
    data["target"] = {**data["target"], "serial": "new in some later version"}
    assert Record.from_json({**data, "later": 1}) == RECORD


def test_what_is_not_understood_is_refused_and_not_guessed(recorded: Recorded) -> None:
    """Another version, a verdict of a later one, a metric without a number, a clock that is none."""
    (metric,), clock = RECORD.to_json()["metrics"], RECORD.to_json()["clock"]
    wrong = [json.loads(text) for text in ("NaN", "Infinity", "1e999", "9" * 400, '"7"', "null", "[7]")]
    recorded.check_refusals([
        {"schema_version": 3}, {"verdict": "perhaps"},
        *({"metrics": [{**metric, "name": f"{value!r:.20}", "value": value}]} for value in wrong),
        *({"metrics": [{**metric, "name": f"{value!r:.20}", "samples": [value]}]} for value in wrong),
        *({"clock": {**clock, "hz": hz}} for hz in (0.0, -1.0, math.nan, math.inf)),
    ], lambda change: Record.from_json({**RECORD.to_json(), **change}), ValueError)  # fmt: skip


def test_a_field_that_was_added_later_may_be_missing_and_no_other(recorded: Recorded) -> None:
    """It has its default then, which is recorded."""
    lines = []
    for name in [field.name for field in dataclasses.fields(Record)]:
        data = {key: value for key, value in RECORD.to_json().items() if key != name}
        try:
            older = Record.from_json(data)
        except ValueError as error:
            lines.append(f"{name}: {error}")
        else:
            lines.append(f"{name} may be missing: {getattr(older, name)!r}")
            assert older == dataclasses.replace(RECORD, **{name: getattr(older, name)})
    recorded.check("\n".join(lines))
    for part, names in (("artifact", ("vela_flags", "scheme")), ("outputs", ("tolerance",)), ("ops", ("sources",))):
        data = RECORD.to_json()
        for name in names:
            del (data[part] if part == "artifact" else data[part][0])[name]
        older = getattr(Record.from_json(data), part)
        recorded.check(older, part)


def test_a_kind_of_a_later_version_is_not_lost() -> None:
    data = RECORD.to_json()
    data["failure"]["kind"] = "melted"
    failure = Record.from_json(data).failure
    assert failure == Failure(FailureKind.OTHER, "melted: 3 of 10 elements differ", "look")
