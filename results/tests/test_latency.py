"""Times that follow from cycles and a clock, and that nothing compares a second time."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.compaction.columns import row_of
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.latency import DERIVED, latency_of, with_latency
from ethos_hil.results.store import StoredRecord

CYCLES = Metric("npu_cycles", 1_000_000, "cycles", "fvp")
RECORD = Record(
    verdict=Verdict.VERIFIED,
    model="net.py:net",
    npu="ethos-u55-256",
    target=TargetInfo("corstone-300", "fvp", "corstone-300"),
    metrics=(CYCLES, Metric("cpu_cycles", 250_000, "cycles", "fvp")),
    system_config="Ethos_U55_High_End_Embedded",
    clock_hz=500e6,
)
INSTRUCTIONS = Metric("cpu_instructions", 250_000, "instructions", "instructions")


def values(record: Record) -> dict[str, float]:
    return {metric.name: metric.value for metric in record.metrics if metric.name in DERIVED}


def test_npu_cpu_and_total_are_apart() -> None:
    record = with_latency(RECORD, StatedClock(250e6, "--clock 250MHz/1GHz", 1e9))
    assert values(record) == {
        "npu_latency_seconds": 0.004,
        "cpu_latency_seconds": 0.00025,
        "latency_seconds": 0.00425,
        "inferences_per_second": pytest.approx(1 / 0.00425),
    }
    assert record.clock == StatedClock(250e6, "--clock 250MHz/1GHz", 1e9)
    assert {metric.provenance for metric in record.metrics} == {"fvp"}
    assert Record.from_json(json.loads(record.dumps())) == record


def test_without_a_clock_of_its_own_the_cpu_has_no_time() -> None:
    assert values(with_latency(RECORD)) == {"npu_latency_seconds": 0.002, "inferences_per_second": 500.0}
    latency = latency_of(RECORD)
    assert latency is not None
    assert (latency.total, latency.counted, latency.unit) == (None, 250_000, "cycles")
    assert latency.clock.of == "Vela's system configuration Ethos_U55_High_End_Embedded"


def test_the_compilers_clock_is_none_of_a_board() -> None:
    """What a board measured is no time at the clock that Vela was told."""
    measured = dataclasses.replace(RECORD, metrics=(dataclasses.replace(CYCLES, provenance="measured"),))
    assert values(with_latency(measured)) == {}
    assert values(with_latency(measured, StatedClock(400e6, "the clock of board:x"))) == {
        "npu_latency_seconds": 0.0025, "inferences_per_second": 400.0,
    }  # fmt: skip


def test_instructions_are_never_time() -> None:
    record = dataclasses.replace(RECORD, metrics=(CYCLES, INSTRUCTIONS))
    latency = latency_of(record, StatedClock(1e9, "--clock 1GHz/1GHz", 1e9))
    assert latency is not None
    assert (latency.cpu, latency.total, latency.counted, latency.unit) == (None, None, 250_000, "instructions")


def test_another_clock_replaces_the_times_and_no_cycles_have_none() -> None:
    once = with_latency(RECORD)
    twice = with_latency(once, StatedClock(1e9, "--clock 1GHz"))
    assert values(twice) == {"npu_latency_seconds": 0.001, "inferences_per_second": 1000.0}
    assert with_latency(twice) == twice  # it keeps the clock that was stated
    assert (
        values(with_latency(twice, StatedClock(250e6, "x")))["npu_latency_seconds"] == 0.004
    )  # unless there is another
    assert with_latency(dataclasses.replace(RECORD, metrics=())).metrics == ()
    assert with_latency(dataclasses.replace(RECORD, clock_hz=0.0)).metrics == RECORD.metrics
    assert values(with_latency(dataclasses.replace(RECORD, metrics=(dataclasses.replace(CYCLES, value=0),)))) == {
        "npu_latency_seconds": 0.0
    }


def test_a_slower_program_alarms_once_and_another_clock_never() -> None:
    slower = dataclasses.replace(RECORD, metrics=(dataclasses.replace(CYCLES, value=1_100_000), RECORD.metrics[1]))
    sides = [observations([with_latency(record)]) for record in (RECORD, slower)]
    changed = [change.metric for change in compare_runs(*sides).changes if change.word != "unchanged"]
    assert changed == ["npu_cycles"]
    other = observations([with_latency(RECORD, StatedClock(1e9, "--clock 1GHz"))])
    again = compare_runs(sides[0], other)
    assert again.changes == ()
    assert again.counts == {"unchanged": 3}  # the verdict and both cycles


def test_a_history_has_no_derived_numbers() -> None:
    record = with_latency(RECORD)
    rows = [row_of(1, StoredRecord("a", "2026-11-24T09:30:00+00:00", entry)) for entry in (RECORD, record)]
    assert rows[0] == rows[1]
    assert "npu_cycles" in str(rows[1]["metrics"])
