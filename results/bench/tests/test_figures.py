"""Figures of points, as one computes them by hand from the records; the table that has a row for each; and budgets, how
they are read and which place meets one.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.errors import UsageError
from ethos_hil.base.inference_profile import InferenceProfile, MemoryBehind
from ethos_hil.base.record import BenchInfo, Metric, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.bench.budget import Budget, answer, model_error
from ethos_hil.results.bench.figures import COLUMNS, PointFigures, bench_table, figures_of, moved_bytes, scaling
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


# The table, the same in CSV and Parquet. That a spreadsheet computes none of it is seen with the other tables.


ROOT = Path(__file__).parents[3]
NAMES = [column.name for column in COLUMNS]
POINTS = [point(), point("ethos-u55-256", 2_500), refused()]


def test_a_row_has_the_figures_and_what_they_depend_on(recorded: Recorded) -> None:
    rows = list(bench_table(POINTS).records())
    figures = vars(figures_of(POINTS[0]))
    assert {name: rows[0][name] for name in figures.keys() & set(NAMES)}.items() <= figures.items()
    recorded.check("\n".join(f"{name}: {', '.join(repr(row[name]) for row in rows)}" for name in NAMES))


def test_csv_and_parquet_say_the_same_with_all_digits(tmp_path: Path) -> None:
    clock = StatedClock(300e6, "stated with --clock 300MHz")
    table = bench_table([dataclasses.replace(record, clock=clock) for record in POINTS])
    rows = list(table.records())
    path = tmp_path / "bench.parquet"
    path.write_bytes(table.to_parquet())
    with duckdb.connect() as database:
        answer = database.execute("FROM read_parquet(?)", [str(path)])
        names = [column[0] for column in answer.description or ()]
        read = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    assert read == rows
    lines = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [list(line) for line in lines] == [NAMES] * 3
    for line, row in zip(lines, rows, strict=True):
        for name, value in row.items():
            assert line[name] == ("" if value is None else repr(value) if isinstance(value, float) else str(value))


def test_the_name_of_the_folder_for_temporary_files_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would take `case=1` for a column, and `[12]` for a pattern."""
    table = bench_table(POINTS)
    before = table.to_parquet()
    (tmp_path / "case=1[12]").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "case=1[12]"))
    assert table.to_parquet() == before


def test_scaling_is_within_one_case_family_mode_and_provenance(recorded: Recorded) -> None:
    records = [
        point("ethos-u55-256", 2_500), point(), refused("ethos-u55-32"),
        point("ethos-u55-256", 1_000, memory_mode="Sram_Only"), point("ethos-u85-256", 1_000),
        point("ethos-u55-256", 1_000, bench=BenchInfo("default", "other", "conv3x3")),
    ]  # fmt: skip
    steps = [(step.point, step.speed_up, step.efficiency) for step in scaling(list(map(figures_of, records)))]
    recorded.check("\n".join(f"{of.npu} {of.memory_mode} {of.label}: {rest}" for of, *rest in steps))


def test_a_grid_of_3000_points_is_written_in_seconds() -> None:
    records = [point(bench=BenchInfo("g", f"case{number}", "conv3x3")) for number in range(3_000)]
    began = time.process_time()
    table = bench_table(records)
    assert len(table.to_csv()) > 1_000_000
    assert len(table.to_parquet()) < 200_000
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_documented(name: str) -> None:
    """Columns of memories are documented by their end."""
    text = (ROOT / "docs" / "formats.md").read_text("utf-8")
    section = text.split("### A row for each point", 1)[1].split("\n## ", 1)[0]
    ends = ("read", "written", "bandwidth", "bandwidth_share")
    columns = [f"`MEMORY_{end}`" for end in ends if name.endswith(f"_{end}") and name != "created"]
    assert f"`{name}`" in section or any(column in section for column in columns)


# Budgets.


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
