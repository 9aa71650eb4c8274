"""Times that follow from cycles and a clock, and that nothing compares a second time."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.compaction.columns import row_of
from ethos_hil.results.gate.compare import compare_runs
from ethos_hil.results.gate.observation import observations
from ethos_hil.results.latency import latency_of, with_latency
from ethos_hil.results.store import StoredRecord

CYCLES = Metric("npu_cycles", 1_000_000, "cycles", "fvp")
RECORD = Record(
    verdict=Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-256",
    target=TargetInfo("corstone-300", "fvp", "corstone-300"),
    metrics=(CYCLES, Metric("cpu_cycles", 250_000, "cycles", "fvp")), system_config="Ethos_U55_High_End_Embedded",
    clock_hz=500e6,
)  # fmt: skip
INSTRUCTIONS = Metric("cpu_instructions", 250_000, "instructions", "instructions")


MEASURED = dataclasses.replace(RECORD, metrics=(dataclasses.replace(CYCLES, provenance="measured"),))
ONCE = with_latency(RECORD)
TWICE = with_latency(ONCE, StatedClock(1e9, "--clock 1GHz"))
BOTH = StatedClock(250e6, "--clock 250MHz/1GHz", 1e9)
TIMED: dict[str, tuple[Record, StatedClock | None]] = {
    "both clocks": (RECORD, BOTH),
    "the compiler's clock": (RECORD, None),
    "a board at the compiler's clock": (MEASURED, None),
    "a board at its own clock": (MEASURED, StatedClock(400e6, "the clock of board:x")),
    "instructions": (dataclasses.replace(RECORD, metrics=(CYCLES, INSTRUCTIONS)), BOTH),
    "another clock": (ONCE, StatedClock(1e9, "--clock 1GHz")),
    "the clock that was stated": (TWICE, None),
    "a third clock": (TWICE, StatedClock(250e6, "x")),
    "no cycles": (dataclasses.replace(RECORD, metrics=()), None),
    "no clock": (dataclasses.replace(RECORD, clock_hz=0.0), None),
    "no time": (dataclasses.replace(RECORD, metrics=(dataclasses.replace(CYCLES, value=0),)), None),
}


@pytest.mark.parametrize("what", TIMED)
def test_times_follow_from_cycles_and_the_clock_that_is_known_best(what: str, recorded: Recorded) -> None:
    """NPU, CPU and total are apart, and instructions are never time."""
    record, clock = TIMED[what]
    timed = with_latency(record, clock)
    assert Record.from_json(json.loads(timed.dumps())) == timed
    recorded.check([list(timed.metrics), latency_of(record, clock), timed.clock])


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
