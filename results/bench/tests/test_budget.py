"""Budgets: how they are read, and which place meets one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.inference_profile import InferenceProfile, MemoryBehind
from ethos_hil.base.record import BenchInfo, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.bench.budget import Budget, answer, model_error
from ethos_hil.results.bench.figures import PointFigures, figures_of
from ethos_hil.results.bench.tests.samples import point, refused

TEXTS = (
    "fps>=30", "FPS >= 30 fps", "latency<=20ms", "latency ≤ 15.5 us", "sram<=512KB", "sram<=512KiB", "sram<=1.5 MB",
    "dram<=4096", "cycles<=3M", "weights=<2k", "", "fps>=30,", "fps>=30, , sram<=1", "fps<=30", "fps>=30,  sram>1KB",
    "fsp>=30", "sram<=512QB", "latency<=20", "sram<=-5KB", "sram<=", "sram<=nan", "cycles<=1.2.3", "cycles<=1e999",
    "fps>=0", "fps>=3, fps>=5", "small",
)  # fmt: skip


def test_a_budget_is_read_in_its_units_and_what_is_none_is_refused_with_its_place(recorded: Recorded) -> None:
    def read(text: str) -> object:
        try:
            return [(part.quantity.name, part.limit, part.text) for part in Budget.parse(text).conditions]
        except UsageError as error:
            return error.message

    recorded.check("\n".join(f"{text!r}: {read(text)}" for text in TEXTS))


def placed(npu: str, cycles: float, sram: int, mode: str = "Shared_Sram", case: str = "conv_56") -> Record:
    profile = InferenceProfile(macs_per_cycle=128, memories={"Sram": MemoryBehind(8.0, sram)})
    return point(npu, cycles, profile=profile, memory_mode=mode, bench=BenchInfo("g", case, "conv3x3"))


PLACED = [
    placed("ethos-u55-256", 1_000_000, 400 << 10),
    placed("ethos-u55-128", 1_900_000, 400 << 10),
    placed("ethos-u55-128", 1_800_000, 700 << 10, "Sram_Only"),
    placed("ethos-u55-64", 30_000_000, 300 << 10),
    placed("ethos-u55-32", 60_000_000, 700 << 10),
    refused("ethos-u85-2048"),
]


ERROR = [placed("ethos-u55-64", 2_000_000, 400 << 10)]
"""250 inferences a second at 500 MHz; the timing model's error is 5.9 % at worst."""
SLOW = replace(figures_of(placed("ethos-u55-64", 2_000_000, 1)), total_s=0.006)
"""With 2 ms of CPU beside 4 ms of NPU, 5 ms ask for 3 ms of the NPU; with 5 ms of CPU no clock is enough."""
FAST = replace(SLOW, label="b", npu_s=0.001, total_s=0.003)
SRAM = [placed("ethos-u55-128", 9, 5), placed("ethos-u55-128", 7, 6, "Sram_Only")]
CYCLES = [SRAM[0], placed("ethos-u55-128", 7, 5, "Sram_Only")]
MODELS = [
    placed("ethos-u55-128", 1_000, 100, case="a"), placed("ethos-u55-128", 5_000, 100, case="b"),
    placed("ethos-u55-128", 9_000, 100, case="c"), placed("ethos-u55-256", 1_000, 100, case="a"),
]  # fmt: skip
ASKED: Mapping[str, tuple[str, Sequence[Record | PointFigures]]] = {
    "the smallest first": ("fps>=30, sram<=512KB", PLACED),
    "just met": ("fps>=250", ERROR),
    "spare within the error": ("fps>=237", ERROR),
    "spare beyond the error": ("fps>=235", ERROR),
    "latency to spare": ("latency<=5ms", ERROR),
    "cycles to spare": ("cycles<=2.1M", ERROR),
    "sram has no error": ("sram<=401KB", ERROR),
    "cycles just met": ("cycles<=2000000", ERROR),
    "cycles missed by one": ("cycles<=1999999", ERROR),
    "missed within the error": ("fps>=260", ERROR),
    "missed": ("fps>=300", ERROR),
    "time of the cpu": ("latency<=5ms", [SLOW]),
    "the slowest model's clock": ("latency<=5ms", [SLOW, FAST]),
    "no clock is enough": ("latency<=5ms", [replace(SLOW, total_s=0.009), FAST]),
    "one in doubt and one that is certain": (
        "fps>=249", [placed("ethos-u55-64", 2_000_000, 1), placed("ethos-u55-128", 1_000_000, 1)]
    ),
    "less sram first": ("fps>=1", SRAM[::-1]),
    "fewer cycles first": ("fps>=1", CYCLES),
    "all models have to": ("cycles<=2k", MODELS),
    "not known": ("fps>=1", [point(clock_hz=0.0)]),
}  # fmt: skip


@pytest.mark.parametrize("what", ASKED)
def test_an_answer_has_the_best_place_and_of_all_what_they_lack_or_have_to_spare(what: str, recorded: Recorded) -> None:
    budget, points = ASKED[what]
    figures = [figures_of(point) if isinstance(point, Record) else point for point in points]
    result = answer(figures, Budget.parse(budget))
    ranks = {id(place): rank for rank, place in enumerate(result.places)}
    lines = [f"best {ranks.get(id(result.best))}, certain {ranks.get(id(result.certain))}"]
    for place in result.places:
        lines.append(
            f"{place.npu} {place.memory_mode}: meets {place.meets}, doubtful {place.doubtful}, {place.refused!r}"
        )
        for margin in place.margins:
            names = ("label", "found", "met", "spare", "short", "clock_hz", "doubtful")
            values = ", ".join(f"{name} {getattr(margin, name)}" for name in names)
            lines.append(f"  {margin.condition.text}: {values}{', lacks' if margin in place.lacks else ''}")
    recorded.check("\n".join(lines))
    if what == "the smallest first":
        document = json.dumps(result.to_json(), allow_nan=False)
        recorded.check(document.replace("}, {", "},\n{"), "as JSON")


def test_only_what_is_modelled_has_the_error_of_the_timing_model(recorded: Recorded) -> None:
    places = [(family, "modelled") for family in ("u55", "u65", "u85", "u99")]
    places += [("u55", "fvp"), ("u85", "measured"), ("u85", "vela")]
    errors = (model_error(f"ethos-{family}-256", provenance) for family, provenance in places)
    lines = (f"{place}: {error and error.worst}" for place, error in zip(places, errors, strict=True))
    recorded.check("\n".join(lines))
