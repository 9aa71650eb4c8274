"""The long form: a row a point, the same in CSV and Parquet, exact, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import dataclasses
import io
import tempfile
import time
from pathlib import Path

import duckdb
import pytest

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.record import BenchInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.bench.figures import COLUMNS, bench_table, figures_of, scaling
from ethos_hil.results.bench.tests.samples import point, refused

ROOT = Path(__file__).parents[3]
NAMES = [column.name for column in COLUMNS]
RECORDS = [point(), point("ethos-u55-256", 2_500), refused()]


def test_a_row_has_the_figures_and_what_they_depend_on(recorded: Recorded) -> None:
    rows = list(bench_table(RECORDS).records())
    figures = vars(figures_of(RECORDS[0]))
    assert {name: rows[0][name] for name in figures.keys() & set(NAMES)}.items() <= figures.items()
    recorded.check("\n".join(f"{name}: {', '.join(repr(row[name]) for row in rows)}" for name in NAMES))


def test_csv_and_parquet_say_the_same_with_all_digits(tmp_path: Path) -> None:
    clock = StatedClock(300e6, "stated with --clock 300MHz")
    table = bench_table([dataclasses.replace(record, clock=clock) for record in RECORDS])
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
    table = bench_table(RECORDS)
    before = table.to_parquet()
    (tmp_path / "case=1[12]").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "case=1[12]"))
    assert table.to_parquet() == before


def test_a_text_that_a_spreadsheet_would_compute_is_inert() -> None:
    bench = BenchInfo("g", '=HYPERLINK("x")', "@sum\n", ("+1",), "a,b")
    text = bench_table([point(bench=bench)]).to_csv()
    (line,) = csv.DictReader(io.StringIO(text))
    assert (line["label"], line["case_group"], line["tags"]) == ('\'=HYPERLINK("x")', "'@sum\\n", "'+1")
    assert text.count("\n") == 2


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
