"""Budgets: how they are read, and which place meets one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.inference_profile import InferenceProfile, MemoryBehind
from ethos_hil.base.record import BenchInfo, Record
from ethos_hil.results.bench.budget import Budget, answer, model_error
from ethos_hil.results.bench.figures import figures_of
from ethos_hil.results.bench.tests.samples import point, refused


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("fps>=30", 30.0),
        ("FPS >= 30 fps", 30.0),
        ("latency<=20ms", 0.02),
        ("latency ≤ 15.5 us", 15.5e-6),
        ("sram<=512KB", 512 * 1024),
        ("sram<=512KiB", 512 * 1024),
        ("sram<=1.5 MB", 1.5 * 1024 * 1024),
        ("dram<=4096", 4096.0),
        ("cycles<=3M", 3e6),
        ("weights=<2k", 2048.0),
    ],
)
def test_a_condition_is_read_in_its_unit(text: str, limit: float) -> None:
    (condition,) = Budget.parse(text).conditions
    assert condition.limit == pytest.approx(limit)
    assert condition.text == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing at character 1"),
        ("fps>=30,", "nothing at character 9"),
        ("fps>=30, , sram<=1", "nothing at character 1"),
        ("fps<=30", "at character 1, 'fps<=30': fps takes >=, since more of it is better, and not <="),
        ("fps>=30,  sram>1KB", "at character 11, 'sram>1KB': sram takes <=, since less of it is better"),
        ("fsp>=30", "'fsp' is unknown; did you mean fps"),
        ("sram<=512QB", "the unit 'QB' is unknown; sram takes: B, KB, MB, GB"),
        ("latency<=20", "the unit is missing; latency takes: s, ms, us, ns"),
        ("sram<=-5KB", "'-5KB' is not a number"),
        ("sram<=", "'' is not a number"),
        ("sram<=nan", "'nan' is not a number"),
        ("cycles<=1.2.3", "'1.2.3' is not a number"),
        ("cycles<=1e999", "is too large"),
        ("fps>=0", "every point has fps>=0"),
        ("fps>=3, fps>=5", "at character 9, 'fps>=5': fps is there twice"),
        ("small", "it is not a condition; write one such as fps>=30"),
    ],
)
def test_what_is_no_budget_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Budget.parse(text)
    assert "\n" not in str(caught.value)


def placed(npu: str, cycles: float, sram: int, mode: str = "Shared_Sram", case: str = "conv_56") -> Record:
    profile = InferenceProfile(macs_per_cycle=128, memories={"Sram": MemoryBehind(8.0, sram)})
    return point(npu, cycles, profile=profile, memory_mode=mode, bench=BenchInfo("g", case, "conv3x3"))


RECORDS = [
    placed("ethos-u55-256", 1_000_000, 400 << 10),
    placed("ethos-u55-128", 1_900_000, 400 << 10),
    placed("ethos-u55-128", 1_800_000, 700 << 10, "Sram_Only"),
    placed("ethos-u55-64", 30_000_000, 300 << 10),
    placed("ethos-u55-32", 60_000_000, 700 << 10),
    refused("ethos-u85-2048"),
]


def test_the_smallest_that_meets_a_budget_is_first_and_others_say_what_they_lack() -> None:
    result = answer([figures_of(record) for record in RECORDS], Budget.parse("fps>=30, sram<=512KB"))
    assert [(place.npu, place.memory_mode, place.meets) for place in result.places] == [
        ("ethos-u55-128", "Shared_Sram", True),
        ("ethos-u55-256", "Shared_Sram", True),
        ("ethos-u55-128", "Sram_Only", False),
        ("ethos-u55-64", "Shared_Sram", False),
        ("ethos-u55-32", "Shared_Sram", False),
        ("ethos-u85-2048", "Shared_Sram", False),
    ]
    assert result.best is result.places[0]
    lacks = {record.npu + record.memory_mode: [(lack.condition.text, lack.found, lack.short) for lack in record.lacks]
             for record in result.places}  # fmt: skip
    assert lacks["ethos-u55-128Sram_Only"] == [("sram<=512KB", 700 << 10, 700 / 512)]
    assert lacks["ethos-u55-64Shared_Sram"] == [("fps>=30", pytest.approx(500 / 30), pytest.approx(1.8))]
    assert len(lacks["ethos-u55-32Shared_Sram"]) == 2
    assert result.places[-1].refused == "compile: Vela cannot compile it"


@pytest.mark.parametrize(
    ("text", "meets"), [("cycles<=1000", True), ("cycles<=999", False), ("fps>=500000", True), ("fps>=500001", False)]
)
def test_a_limit_that_is_just_reached_is_met(text: str, meets: bool) -> None:
    figures = figures_of(placed("ethos-u55-128", 1_000, 5))
    assert Budget.parse(text).conditions[0].is_met_by(figures) is meets


@pytest.mark.parametrize(
    ("text", "spare", "clock", "doubtful"),
    [
        ("fps>=250", 0.0, 500e6, True),  # 2,000,000 cycles at 500 MHz are 250/s
        ("fps>=237", 250 / 237 - 1, 474e6, True),  # 5.5 % where the error is 5.9 % at worst
        ("fps>=235", 250 / 235 - 1, 470e6, False),  # 6.4 %
        ("latency<=5ms", 0.25, 400e6, False),
        ("cycles<=2.1M", 0.05, None, True),
        ("sram<=401KB", 1 / 400, None, False),  # a size has no error of a timing model
        ("fps>=260", 250 / 260 - 1, 520e6, True),  # missed by less than the error
        ("fps>=300", 250 / 300 - 1, 600e6, False),
    ],
)
def test_a_margin_has_what_is_spare_the_clock_that_is_needed_and_the_error(
    text: str, spare: float, clock: float | None, doubtful: bool
) -> None:
    (place,) = answer([figures_of(placed("ethos-u55-64", 2_000_000, 400 << 10))], Budget.parse(text)).places
    (margin,) = place.margins
    assert margin.spare == pytest.approx(spare)
    assert margin.clock_hz == (None if clock is None else pytest.approx(clock))
    assert (margin.doubtful, place.doubtful) == (doubtful, doubtful)
    assert place.meets is (spare >= 0)


@pytest.mark.parametrize(
    ("provenance", "family", "worst"),
    [("modelled", "u55", 0.059), ("modelled", "u65", 0.191), ("modelled", "u85", 0.146), ("modelled", "u99", None),
     ("fvp", "u55", None), ("measured", "u85", None), ("vela", "u85", None)],
)  # fmt: skip
def test_only_what_is_modelled_has_the_error_of_the_timing_model(
    provenance: str, family: str, worst: float | None
) -> None:
    error = model_error(f"ethos-{family}-256", provenance)
    assert (None if error is None else error.worst) == worst


def test_the_clock_leaves_the_cpu_its_time_and_is_the_one_that_the_slowest_model_needs() -> None:
    """With 2 ms of CPU beside 4 ms of NPU, 5 ms ask for 3 ms of the NPU; with 5 ms of CPU no clock is enough."""
    figures = replace(figures_of(placed("ethos-u55-64", 2_000_000, 1)), total_s=0.006)
    faster = replace(figures, label="b", npu_s=0.001, total_s=0.003)
    for others in ([], [faster]):
        (place,) = answer([figures, *others], Budget.parse("latency<=5ms")).places
        assert place.margins[0].clock_hz == pytest.approx(500e6 * 4 / 3)
    (place,) = answer([replace(figures, total_s=0.009), faster], Budget.parse("latency<=5ms")).places
    assert place.margins[0].clock_hz is None


def test_a_place_that_meets_it_whatever_the_error_is_named_beside_one_that_may_not() -> None:
    records = [placed("ethos-u55-64", 2_000_000, 1), placed("ethos-u55-128", 1_000_000, 1)]
    result = answer([figures_of(record) for record in records], Budget.parse("fps>=249"))
    assert result.best is result.places[0]
    assert result.best is not None
    assert result.best.doubtful
    assert result.certain is result.places[1]


def test_less_sram_comes_first_where_the_macs_are_equal_and_fewer_cycles_after_that() -> None:
    def order(*records: Record) -> list[str]:
        return [
            record.memory_mode for record in answer([figures_of(r) for r in records], Budget.parse("fps>=1")).places
        ]

    less, more = placed("ethos-u55-128", 9, 5), placed("ethos-u55-128", 7, 6, "Sram_Only")
    assert order(more, less) == ["Shared_Sram", "Sram_Only"]
    slow, fast = placed("ethos-u55-128", 9, 5), placed("ethos-u55-128", 7, 5, "Sram_Only")
    assert order(slow, fast) == ["Sram_Only", "Shared_Sram"]


def test_all_models_have_to_meet_it_and_the_worst_is_told() -> None:
    records = [
        placed("ethos-u55-128", 1_000, 100, case="a"), placed("ethos-u55-128", 5_000, 100, case="b"),
        placed("ethos-u55-128", 9_000, 100, case="c"), placed("ethos-u55-256", 1_000, 100, case="a"),
    ]  # fmt: skip
    result = answer([figures_of(record) for record in records], Budget.parse("cycles<=2k"))
    slow, partial = result.places
    assert result.labels == ("a", "b", "c")
    assert [(lack.label, lack.found, lack.short) for lack in slow.lacks] == [("c", 9_000, 4.5)]
    assert partial.refused == "b was not tried there"
    assert result.best is None


def test_a_figure_that_is_not_known_meets_nothing() -> None:
    result = answer([figures_of(point(clock_hz=0.0))], Budget.parse("fps>=1"))
    (lack,) = result.places[0].lacks
    assert (result.best, lack.found, lack.short) == (None, None, None)


def test_the_answer_is_json_with_the_figures_it_was_judged_by() -> None:
    result = answer([figures_of(record) for record in RECORDS], Budget.parse("fps>=30, sram<=512KB"))
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["budget"][1] == {"quantity": "sram", "limit": 524288.0, "text": "sram<=512KB"}
    assert data["places"][0]["points"][0] == {
        "label": "conv_56", "verdict": "compiled-only", "provenance": "modelled", "clock_hz": 500e6,
        "clock_of": "Vela's system configuration Ethos_U55_High_End_Embedded",
        "fps": pytest.approx(500e6 / 1.9e6), "sram": 400 << 10,
    }  # fmt: skip
    assert [place["meets"] for place in data["places"]] == [True, True, False, False, False, False]
