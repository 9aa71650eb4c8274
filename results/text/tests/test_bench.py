"""A benchmark and the answer to a budget in a terminal of 100 columns."""

from __future__ import annotations

import dataclasses
import io
import time

import pytest
from rich.console import Console, RenderableType

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
def test_3000_points_are_a_screen_of_text_in_100_columns_and_a_second(by: BenchBy) -> None:
    assert len(GRID) > 3_000
    began = time.process_time()
    lines = shown(bench_text(GRID, by=by))
    assert time.process_time() - began < 2
    assert len(lines) < 75
    assert lines[0] == "3,036 points, 92 cases in 33 places: 2,668 compiled-only, 368 refused"
    assert all(line.count("…") <= line.count("ather_long") for line in lines)  # only long names are cut


def test_the_summary_has_a_row_for_each_group_and_a_column_for_each_npu() -> None:
    lines = shown(bench_text(GRID))
    heads = next(index for index, line in enumerate(lines) if line.startswith("group "))
    assert lines[heads - 1].split() == [npu.split("-")[1] for npu in NPUS]
    assert lines[heads].split() == ["group", "cases", *(npu.split("-")[2] for npu in NPUS)]
    assert lines[heads + 1].split() == ["group0", "7", *["50"] * len(NPUS)]
    assert "refused" in lines
    assert [line for line in lines if line.endswith("Dedicated_Sram_384KB: 0") or " 368 " in f" {line} "]
    assert "cycles  modelled of 2,668 points" in lines
    assert any(line.startswith(f"clock   500 MHz ({CLOCK}): u55-32, u55-64") for line in lines)


def test_cases_have_the_cycles_of_the_fastest_mode_there_is() -> None:
    def row(mode: str | None) -> list[str]:
        points = [point for point in GRID if mode in (None, point.memory_mode)]
        lines = shown(bench_text(points, by=BenchBy.CASE, top=1))
        start = next(index for index, line in enumerate(lines) if line.startswith("case "))
        assert lines[start + 2] == "and 91 more"
        return lines[start + 1].split()

    assert row(None)[1:4] == ["188k", "93.8k", "46.9k"]  # Sram_Only
    assert row("Shared_Sram")[1:4] == ["250k", "125k", "62.5k"]
    assert row("Dedicated_Sram_384KB")[1:6] == ["-", "-", "-", "-", "31.2k"]


def test_npus_have_their_modes_with_what_they_refused_and_their_speed_up() -> None:
    verified = [dataclasses.replace(point, verdict="verified") if not point.reason else point for point in GRID]
    lines = shown(bench_text(verified, by=BenchBy.NPU))
    row = next(line for line in lines if line.startswith("u55-256  Sram_Only "))
    assert row.split()[2:11] == ["92", "92", "0", "500", "MHz", "50", "%", "8", "4.31"]
    assert next(line for line in lines if line.startswith("u55-32   Dedicated")).split()[2:] == ["92", "0", "92"]


def test_reasons_are_grouped_whatever_numbers_they_have() -> None:
    lines = shown(bench_text(GRID))
    refused = lines.index("refused")
    assert lines[refused + 1].split() == ["points", "where", "reason"]
    assert lines[refused + 2].startswith("   368  92 cases; 4 NPUs;")
    assert len(lines) - refused <= 4


def test_a_wrong_answer_is_failed_and_what_could_not_be_made_is_refused() -> None:
    wrong = dataclasses.replace(refusal("ethos-u55-32", "Sram_Only", 1), verdict="failed", reason="mismatch: 3 of 8")
    failed = dataclasses.replace(wrong, refused=False)
    lines = shown(bench_text([GRID[0], failed, dataclasses.replace(wrong, label="b")]))
    assert lines[0].endswith(": 1 compiled-only, 1 failed, 1 refused")
    assert {"failed", "refused"} <= set(lines)
    lines = shown(bench_text([GRID[0], failed], by=BenchBy.NPU))
    assert next(line for line in lines if line.split()[:2] == ["u55-32", "Sram_Only"]).split()[2:] == ["1", "0", "1"]


def test_text_of_a_case_is_shown_as_text() -> None:
    hostile = figure("ethos-u55-128", "Shared_Sram", 1, label="[bold]\x1b[2J", group="[red]\n")
    refused = dataclasses.replace(hostile, cycles=None, reason="[bold]\x07bad\nline", label="b", refused=True)
    for by in BenchBy:
        text = "\n".join(shown(bench_text([hostile, refused], by=by)))
        assert not {char for char in text if not char.isprintable()} - {"\n"}
        assert "[bold]\\x07bad" in text
    (first, *_) = shown(bench_text([refused]))
    assert first == "1 point, 1 case in 1 place: 1 refused"
    assert shown(bench_text([]))[0].startswith("0 points")


def test_a_budget_names_the_smallest_and_says_what_others_lack() -> None:
    points = [point for point in GRID if point.label == GRID[0].label]
    lines = shown(budget_text(answer(points, Budget.parse("fps>=3000, sram<=512KB"))))
    assert lines[0] == "ethos-u55-64 in Sram_Only is the smallest that meets fps>=3000, sram<=512KB"
    text = " ".join(lines)
    assert "compiled-only; cycles are modelled; clock 500 MHz (Vela's system configuration" in text
    row = next(line for line in lines if line.startswith("ethos-u55-32 ") and "Shared" in line)
    assert row.split()[2:] == ["500", "MHz", "2,000", "400", "KB", "500", "us", "fps", "1.5x", "too", "low"]
    assert sum("meets it" in line for line in lines) > 20
    refused = " ".join(lines).split("refused: ")[1]
    assert refused.startswith("u55-32 in Dedicated_Sram_384KB, u55-64 in Dedicated_Sram_384KB, u55-128 in")
    assert "and 1 more: capability: ethos-u55-32 has no memory mode" in refused


@pytest.mark.parametrize(
    ("budget", "provenance", "text"),
    [
        ("fps>=5290", "modelled", "0.82 % to spare at 500 MHz, which is less than the timing model's error on networks "
         "(6 % at worst, 1 % in the median on Ethos-U55, and more on a single small operation; docs/npu.md); "
         "it holds down to 496 MHz "
         "ethos-u55-128 in Sram_Only meets it even where the model is wrong by its error at worst"),
        ("fps>=3000", "modelled", "78 % to spare at 500 MHz, which is more than the timing"),
        ("fps>=5290", "measured", "0.82 % to spare at 500 MHz (counted by a board, so without the timing model's "
         "error); it holds down to 496 MHz"),
        ("fps>=5290", "fvp", "0.82 % to spare at 500 MHz (counted by an FVP, so"),
    ],
)  # fmt: skip
def test_a_budget_says_what_is_spare_and_whether_the_model_is_that_exact(
    budget: str, provenance: str, text: str
) -> None:
    points = [dataclasses.replace(point, provenance=provenance) for point in GRID if point.label == GRID[0].label]
    lines = shown(budget_text(answer(points, Budget.parse(budget))))
    doubtful = provenance == "modelled" and budget == "fps>=5290"
    assert text in " ".join(lines)
    assert ("by less than the timing model's error" in " ".join(lines[:2])) == doubtful
    row = next(line for line in lines if line.split()[:2] == ["ethos-u55-64", "Sram_Only"])
    assert ("meets it by 0.82 %, within" in " ".join(row.split())) == doubtful


def test_sram_says_what_it_leaves_out() -> None:
    points = [dataclasses.replace(point, planned_bytes=96 << 10, sram_used=512 << 10)
              for point in GRID if point.label == GRID[0].label]  # fmt: skip
    text = " ".join(shown(budget_text(answer(points, Budget.parse("sram<=512KB")))))
    assert "sram: 28 % to spare" in text
    assert "Not in it: tensors outside of it (96 KB for ethos-u55-32 in Sram_Only, in SRAM or beyond), and of" in text
    assert "variables, stack and code. Booted, the firmware had 512 KB of its pool in use" in text


def test_a_budget_that_nothing_meets_names_the_nearest_if_it_is_known() -> None:
    points = [point for point in GRID if point.label == GRID[0].label]
    lines = shown(budget_text(answer(points, Budget.parse("sram<=100KB"))))
    assert lines[0] == "nothing meets sram<=100KB; the nearest is ethos-u55-32 in Sram_Only"
    assert any(line.endswith("sram 4x too high") for line in lines)
    untimed = [dataclasses.replace(point, inferences_per_s=None) for point in points]
    lines = shown(budget_text(answer(untimed, Budget.parse("fps>=1"))))
    assert lines[0] == "nothing meets fps>=1"
    assert any(line.endswith("fps is not known") for line in lines)
    assert shown(budget_text(answer([GRID[2]], Budget.parse("fps>=1"))))[0] == "nothing meets fps>=1"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("fps", 12.34, "12.3"),
        ("latency", 0.0123, "12.3 ms"),
        ("cycles", 1234567.0, "1,234,567"),
        ("sram", 512 * 1024, "512 KB"),
        ("sram", 3 << 20, "3 MB"),
        ("sram", 17, "17 B"),
        ("dram", 0, "0 B"),
    ],
)
def test_figures_have_the_unit_that_people_use(name: str, value: float, text: str) -> None:
    assert shown_quantity(QUANTITIES[name], value) == text
