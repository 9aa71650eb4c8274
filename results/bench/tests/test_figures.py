"""Figures of points, as one computes them by hand from the records, and the table that has a row for each."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import tempfile
import time
from pathlib import Path

import duckdb
import pytest

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.record import BenchInfo, Metric, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.bench.figures import COLUMNS, bench_table, figures_of, moved_bytes, scaling
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
        point("ethos-u55-256", 2_500),
        point(),
        refused("ethos-u55-32"),
        point("ethos-u55-256", 1_000, memory_mode="Sram_Only"),
        point("ethos-u85-256", 1_000),
        point("ethos-u55-256", 1_000, bench=BenchInfo("default", "other", "conv3x3")),
    ]
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
