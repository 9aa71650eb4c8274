"""Figures of points, compared with what one computes by hand from their records."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.record import Metric, Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.bench.figures import figures_of, moved_bytes
from ethos_hil.results.bench.tests.samples import COSTS, point, refused


def test_every_figure_is_what_one_computes_by_hand() -> None:
    figures = figures_of(point())
    assert (figures.label, figures.group, figures.npu, figures.verdict) == (
        "conv_56",
        "conv3x3",
        "ethos-u55-128",
        "compiled-only",
    )
    assert (figures.reason, figures.provenance, figures.cycles, figures.operations) == ("", "modelled", 4_000, 3)
    assert figures.macs == 600_000 + 40_000
    assert figures.utilisation == 640_000 / (4_000 * 128) == 1.25  # a sample: no NPU is that good
    assert figures.cycles_per_kmac == 4_000 / 640
    assert figures.bytes == {
        "Sram read": 4_000, "Sram written": 3_000, "OffChipFlash read": 2_000, "OffChipFlash written": 0,
    }  # fmt: skip
    assert moved_bytes(figures) == {"Sram": 7_000, "OffChipFlash": 2_000}
    assert figures.intensity == 640_000 / 9_000
    assert figures.npu_s == 4_000 / 500e6
    assert figures.bandwidth == {"Sram": pytest.approx(7_000 / 8e-6), "OffChipFlash": pytest.approx(2_000 / 8e-6)}
    assert figures.bandwidth_share == {"Sram": 7_000 / (4_000 * 8), "OffChipFlash": 2_000 / 4_000}
    assert figures.bound_by == "mac"  # 1,500 + 800 of 4,000 cycles
    assert (figures.sram_peak, figures.dram_bytes) == (7_000, 2_000)
    assert (figures.weight_bytes, figures.weights, figures.weight_ratio) == (1_800, 3_000, 0.6)
    assert (figures.vela_cycles, figures.vela_npu_cycles) == (4_400, 1_000)
    assert (figures.clock_hz, figures.clock_of) == (500e6, "Vela's system configuration Ethos_U55_High_End_Embedded")
    assert figures.inferences_per_s == pytest.approx(125_000)
    assert (figures.cpu, figures.cpu_unit, figures.cpu_s, figures.total_s) == (0, "", None, None)


def test_times_are_made_with_the_stated_clock_and_shares_stay() -> None:
    counted = (*point().metrics, Metric("cpu_cycles", 2_000, "cycles", "measured"))
    half = StatedClock(250e6, "--clock 250MHz/1GHz", 1e9)
    figures, before = figures_of(point(metrics=counted, clock=half)), figures_of(point())
    assert (figures.npu_s, figures.cpu_s, figures.total_s) == (16e-6, 2e-6, pytest.approx(18e-6))
    assert figures.inferences_per_s == pytest.approx(1 / 18e-6)
    assert figures.bandwidth["Sram"] == pytest.approx(before.bandwidth["Sram"] / 2)
    assert (figures.bandwidth_share, figures.utilisation) == (before.bandwidth_share, before.utilisation)


def test_what_a_record_does_not_say_is_none() -> None:
    bare = figures_of(point(profile=None, clock_hz=0.0))
    assert (bare.cycles, bare.npu_s, bare.macs, bare.utilisation, bare.sram_peak, bare.bytes) == (
        4_000, None, None, None, None, {},
    )  # fmt: skip
    older = figures_of(point(profile=InferenceProfile(costs=COSTS, macs_per_cycle=128)))  # without the memories
    assert (older.sram_peak, older.bandwidth_share, older.utilisation) == (None, {}, 1.25)
    nothing = figures_of(point(cycles=0.0, profile=InferenceProfile(macs_per_cycle=128)))
    assert (nothing.cycles, nothing.utilisation, nothing.intensity, nothing.inferences_per_s) == (0, None, None, None)


def test_a_memory_that_nothing_uses_has_no_bytes_and_all_is_sram_where_there_is_no_other() -> None:
    only = {name: dataclasses.replace(cost, traffic=cost.traffic[:1]) for name, cost in COSTS.items()}
    profile = dataclasses.replace(point().profile or InferenceProfile(), costs=only)
    figures = figures_of(point(profile=profile))
    assert figures.bytes["OffChipFlash read"] == 0
    assert (figures.dram_bytes, figures.bandwidth_share["OffChipFlash"]) == (0, 0.0)


def test_rows_that_have_another_rows_cycles_do_not_bound_anything() -> None:
    ops = [dataclasses.replace(op, cycles=None, merged_with="npu00001") for op in point().ops]
    ops[1] = dataclasses.replace(ops[1], cycles=2_000, merged_with="")
    assert figures_of(point(ops=tuple(ops))).bound_by == "OffChipFlash"
    estimated = [dataclasses.replace(op, cycles=None) for op in point().ops]  # an FVP tells no rows: the model's
    assert figures_of(point(ops=tuple(estimated))).bound_by == "mac"


@pytest.mark.parametrize("record", [refused(), point(verdict=Verdict.FAILED, failure=refused().failure)])
def test_what_is_refused_or_wrong_has_a_reason_and_no_figures(record: Record) -> None:
    figures = figures_of(record)
    assert figures.reason == "compile: Vela cannot compile it"
    assert (figures.cycles, figures.npu_s, figures.macs, figures.vela_cycles) == (None, None, None, None)


def test_cycles_that_nobody_counts_are_a_reason() -> None:
    assert figures_of(point(cycles=None)).reason == "the target counts no cycles of the NPU"


def test_figures_survive_the_record_in_json() -> None:
    assert figures_of(Record.from_json(json.loads(point().dumps()))) == figures_of(point())
