"""A benchmark and the answer to a budget in a terminal of 100 columns."""

from __future__ import annotations

import dataclasses
import io
import time

import pytest
from rich.console import Console, RenderableType

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.bench.budget import QUANTITIES, Budget, answer
from ethos_hil.results.bench.figures import PointFigures
from ethos_hil.results.text.bench import BenchBy, bench_text
from ethos_hil.results.text.budget import budget_text, shown_quantity

SIZES = {"u55": (32, 64, 128, 256), "u65": (256, 512), "u85": (128, 256, 512, 1024, 2048)}
NPUS = [f"ethos-{family}-{size}" for family, sizes in SIZES.items() for size in sizes]
MODES = ("Shared_Sram", "Sram_Only", "Dedicated_Sram_384KB")
CLOCK = "Vela's system configuration Ethos_U55_High_End_Embedded"


def figure(npu: str, mode: str, case: int, **changes: object) -> PointFigures:
    size = int(npu.rpartition("-")[2])
    cycles = 2_000_000 * (case + 1) // size * (3 if mode == "Sram_Only" else 4)
    result = PointFigures(
        f"conv3x3_56x56x{case}_with_a_name_that_is_rather_long", f"group{case % 14}", npu, mode, "", "virtual",
        "compiled-only", provenance="modelled", clock_hz=500e6, clock_of=CLOCK, cycles=cycles, npu_s=cycles / 500e6,
        inferences_per_s=500e6 / cycles, utilisation=0.5, sram_peak=400 << 10, bound_by="mac",
    )  # fmt: skip
    return dataclasses.replace(result, **changes)  # type: ignore[arg-type]


def refusal(npu: str, mode: str, case: int) -> PointFigures:
    reason = f"capability: {npu} has no memory mode {mode}: {case} bytes"
    figures = figure(npu, mode, case)
    return PointFigures(figures.label, figures.group, npu, mode, "", "virtual", "skipped", reason=reason, refused=True)


GRID = [
    refusal(npu, mode, case) if mode.startswith("Dedicated") and "u55" in npu else figure(npu, mode, case)
    for case in range(92) for npu in NPUS for mode in MODES
]  # fmt: skip


def shown(text: RenderableType, width: int = 100) -> list[str]:
    """The lines as a terminal of some columns has them."""
    file = io.StringIO()
    Console(file=file, width=width, highlight=False, markup=False, emoji=False).print(text)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    return lines


@pytest.mark.parametrize("by", BenchBy)
def test_3000_points_are_a_screen_of_text_in_100_columns_and_a_second(by: BenchBy, recorded: Recorded) -> None:
    assert len(GRID) > 3_000
    began = time.process_time()
    lines = shown(bench_text(GRID, by=by))
    assert time.process_time() - began < 2
    assert len(lines) < 75
    assert all(line.count("…") <= line.count("ather_long") for line in lines)  # only long names are cut
    recorded.check("\n".join(lines))


WRONG = dataclasses.replace(refusal("ethos-u55-32", "Sram_Only", 1), verdict="failed", reason="mismatch: 3 of 8")
HOSTILE = figure("ethos-u55-128", "Shared_Sram", 1, label="[bold]\x1b[2J", group="[red]\n")
UNSAID = dataclasses.replace(HOSTILE, cycles=None, reason="[bold]\x07bad\nline", label="b", refused=True)
SMALL = {
    "shared": [point for point in GRID if point.memory_mode == "Shared_Sram"],
    "dedicated": [point for point in GRID if point.memory_mode.startswith("Dedicated")],
    "verified": [dataclasses.replace(point, verdict="verified") if not point.reason else point for point in GRID[:99]],
    "failed and refused": [GRID[0], dataclasses.replace(WRONG, refused=False), dataclasses.replace(WRONG, label="b")],
    "hostile": [HOSTILE, UNSAID],
    "refused": [UNSAID],
    "nothing": [],
}


@pytest.mark.parametrize("what", SMALL)
def test_a_benchmark_is_told_with_what_became_of_its_points(what: str, recorded: Recorded) -> None:
    """A mode that an NPU lacks has no cycles; a wrong answer is failed, and what could not be made is refused."""
    for by in BenchBy:
        text = "\n".join(shown(bench_text(SMALL[what], by=by, top=1)))
        assert not {char for char in text if not char.isprintable()} - {"\n"}
        recorded.check(text, by)


FIRST = [point for point in GRID[:33] if point.npu.startswith(("ethos-u55", "ethos-u85-1"))]
"""One case on some NPUs."""


def of_all(**changes: object) -> list[PointFigures]:
    return [dataclasses.replace(point, **changes) for point in FIRST]  # type: ignore[arg-type]


BUDGETS = {
    "the smallest": ("fps>=3000, sram<=512KB", FIRST),
    "in doubt": ("fps>=5290", FIRST),
    "counted by a board": ("fps>=5290", of_all(provenance="measured")),
    "counted by an FVP": ("fps>=5290", of_all(provenance="fvp")),
    "sram": ("sram<=512KB", of_all(planned_bytes=96 << 10, sram_used=512 << 10)),
    "too little sram": ("sram<=100KB", FIRST),
    "without times": ("fps>=1", of_all(inferences_per_s=None)),
    "most on the CPU": ("fps>=1", of_all(npu_share=0.036)),
    "refused alone": ("fps>=1", [GRID[2]]),
}


@pytest.mark.parametrize("what", BUDGETS)
def test_a_budget_names_the_smallest_what_it_has_to_spare_and_what_others_lack(what: str, recorded: Recorded) -> None:
    """What the timing model's error makes doubtful is told, and where a board or an FVP counts there is none."""
    budget, points = BUDGETS[what]
    recorded.check("\n".join(shown(budget_text(answer(points, Budget.parse(budget))))))


FIGURES = (("fps", 12.34), ("latency", 0.0123), ("cycles", 1234567.0), ("sram", 512 * 1024), ("sram", 3 << 20),
           ("sram", 17), ("dram", 0))  # fmt: skip


def test_figures_have_the_unit_that_people_use(recorded: Recorded) -> None:
    recorded.check("\n".join(f"{name} {value}: {shown_quantity(QUANTITIES[name], value)}" for name, value in FIGURES))
