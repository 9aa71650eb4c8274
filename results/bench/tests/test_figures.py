"""Figures of points: all of them, as one computes them by hand from the records."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.bench.figures import figures_of, moved_bytes
from ethos_hil.results.bench.tests.samples import COSTS, point, refused

MERGED = [dataclasses.replace(op, cycles=None, merged_with="npu00001") for op in point().ops]
MERGED[1] = dataclasses.replace(MERGED[1], cycles=2_000, merged_with="")
ONLY_SRAM = {name: dataclasses.replace(cost, traffic=cost.traffic[:1]) for name, cost in COSTS.items()}
COUNTED = (*point().metrics, Metric("cpu_cycles", 2_000, "cycles", "measured"))
RECORDS = {
    "a point": point(),
    "a stated clock": point(metrics=COUNTED, clock=StatedClock(250e6, "--clock 250MHz/1GHz", 1e9)),
    "no profile": point(profile=None, clock_hz=0.0),
    "no memories": point(profile=InferenceProfile(costs=COSTS, macs_per_cycle=128)),
    "no cycles": point(cycles=0.0, profile=InferenceProfile(macs_per_cycle=128)),
    "cycles that no one counts": point(cycles=None),
    "a memory that nothing uses": point(
        profile=dataclasses.replace(point().profile or InferenceProfile(), costs=ONLY_SRAM)
    ),
    "rows with another row's cycles": point(ops=tuple(MERGED)),
    "rows of an FVP": point(ops=tuple(dataclasses.replace(op, cycles=None) for op in point().ops)),
    "refused": refused(),
    "failed": point(verdict=Verdict.FAILED, failure=refused().failure),
}


@pytest.mark.parametrize("what", RECORDS)
def test_figures_are_those_that_one_computes_by_hand(what: str, recorded: Recorded) -> None:
    """What a record does not say is null; what is refused or wrong has a reason and no figures."""
    figures = figures_of(RECORDS[what])
    assert figures_of(Record.from_json(json.loads(RECORDS[what].dumps()))) == figures
    properties = {name: getattr(figures, name) for name, kind in vars(type(figures)).items() if type(kind) is property}
    recorded.check({"figures": figures, "properties": properties, "moved": moved_bytes(figures)})
