"""Protects the published baselines: a row is its record, a wrong number is seen, and the page is what its data give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.results.bench.figures import figures_of
from ethos_hil.results.store import StoredRecord, read_run
from ethos_hil.suites.lab.measure.baselines.baseline_table import BaselineTable, differences
from ethos_hil.suites.lab.measure.baselines.command import JSON, PAGE, main, measured_table, sram_of, table_of
from ethos_hil.suites.lab.measure.baselines.networks import NETWORKS
from ethos_hil.suites.lab.measure.baselines.page import network_section, page, point_row
from ethos_hil.suites.lab.measure.baselines.plan import is_booted, plan_of
from ethos_hil.suites.lab.measure.baselines.point import BaselinePoint
from ethos_hil.suites.lab.prove.upstream.setting import REPOSITORY

DOCS = REPOSITORY / "docs"
NETWORK, NPUS = "autoencoder", ("ethos-u55-128", "ethos-u85-256")
_OF_THE_MODEL = ("cycles", "utilisation", "transposing", "bound_by", "off_chip_bytes")
"""Fields that another timing model may change."""


@dataclass(frozen=True)
class Measured:
    """One network on two NPUs."""

    table: BaselineTable
    points: Sequence[BenchPoint]
    records: Sequence[Record]

    def record(self, point: BaselinePoint, *, booted: bool) -> Record:
        (match,) = (
            record
            for record in self.records
            if (record.npu, record.memory_mode) == (point.npu, point.memory_mode)
            and record.bench is not None
            and (record.bench.case != NETWORK) == booted
        )
        return match


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    runs = tmp_path_factory.mktemp("runs")
    table = measured_table([NETWORK], NPUS, 2, runs)
    (folder,) = runs.iterdir()
    records = [stored.record for stored in read_run(folder) if isinstance(stored, StoredRecord)]
    return Measured(table, plan_of([NETWORK], NPUS).points, records)


@pytest.fixture(scope="module")
def kept() -> BaselineTable:
    return BaselineTable.of_text((DOCS / JSON).read_text("utf-8"))


@pytest.mark.slow
def test_a_row_is_its_record(measured: Measured) -> None:
    assert [(point.npu, point.memory_mode) for point in measured.table.points] == [
        ("ethos-u55-128", "Shared_Sram"),
        ("ethos-u55-128", "Sram_Only"),
        ("ethos-u85-256", "Sram_Only"),
        ("ethos-u85-256", "Shared_Sram"),
        ("ethos-u85-256", "Dedicated_Sram_384KB"),
    ]
    section = network_section(measured.table, NETWORK).splitlines()
    for point in measured.table.points:
        record = measured.record(point, booted=False)
        cycles, estimate = record.metric("npu_cycles"), record.metric("npu_cycles_estimate")
        assert cycles is not None
        assert estimate is not None
        row = next(line for line in section if point.npu.removeprefix("ethos-") in line and point.memory_mode in line)
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[4:6] == [f"{cycles.value:,}", f"{estimate.value:,}"]
        assert float(cells[2].split()[0]) == pytest.approx(1e3 * cycles.value / record.clock_hz, rel=0.01, abs=5e-4)
        assert float(cells[6].split()[0].replace(",", "")) == pytest.approx((point.sram_bytes or 0) / 1024, rel=0.1)
        assert record.verdict is Verdict.COMPILED_ONLY
        assert cells[-1] == point.verdict


@pytest.mark.slow
def test_what_was_booted_is_verified_and_has_the_distance_from_float(measured: Measured) -> None:
    booted = [point for point in measured.table.points if point.verdict == "verified"]
    assert [(point.npu, point.memory_mode) for point in booted] == [
        ("ethos-u55-128", "Shared_Sram"),
        ("ethos-u85-256", "Sram_Only"),
    ]
    for point in booted:
        (accuracy,) = measured.record(point, booted=True).accuracy
        assert point.sqnr_db == pytest.approx(accuracy.sqnr_db, abs=0.01)
    assert all(point.sqnr_db is None for point in measured.table.points if point not in booted)


@pytest.mark.slow
def test_the_committed_numbers_are_those_of_today(measured: Measured, kept: BaselineTable) -> None:
    """Of one network on two NPUs; `--check` compares all. Another timing model may have other cycles."""
    same_model = kept.timing_model == measured.table.timing_model
    points = {point.key: point.to_json() for point in kept.points}
    for point in measured.table.points:
        before, now = points[point.key], point.to_json()
        names = [name for name in now if same_model or name not in _OF_THE_MODEL]
        assert {name: now[name] for name in names} == {name: before[name] for name in names}


@pytest.mark.slow
def test_a_booted_point_that_is_not_the_timed_one_is_not_published(measured: Measured) -> None:
    point = next(point for point in measured.table.points if point.verdict == "verified")
    timed, booted = (measured.record(point, booted=flag) for flag in (False, True))
    row = BaselinePoint.of(NETWORK, timed, figures_of(timed), sram_of(timed.target.soc))
    assert row.verdict == "compiled-only"
    assert row.booted(booted) == point
    one_more = tuple(replace(metric, value=metric.value + (metric.name == "npu_cycles")) for metric in booted.metrics)
    assert booted.artifact is not None
    delegates = tuple(replace(delegate, stream_sha256="0" * 64) for delegate in booted.artifact.delegates)
    wrong = {
        "cycles": replace(booted, metrics=one_more),
        "program": replace(booted, artifact=replace(booted.artifact, delegates=delegates)),
        "differ": replace(
            booted, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "3 of 640 elements differ")
        ),
    }
    for word, record in wrong.items():
        failed = row.booted(record)
        assert failed.verdict == "failed", word
        assert word in failed.reason
        others = [record for record in measured.records if record is not booted]
        with pytest.raises(ToolError, match="is not verified"):
            table_of(measured.points, [*others, record])
    assert replace(row, fits=False).booted(wrong["cycles"]).verdict == "verified", "its memories are not the mode's"


@pytest.mark.slow
def test_a_point_without_a_record_or_of_another_timing_model_is_not_published(measured: Measured) -> None:
    with pytest.raises(ToolError, match="has no record"):
        table_of(measured.points, measured.records[1:])
    other = [replace(record, timing_model="0123456789abcdef") for record in measured.records]
    with pytest.raises(ToolError, match="timed by the model 0123456789abcdef"):
        table_of(measured.points, other)


def test_the_page_is_what_the_data_give(kept: BaselineTable) -> None:
    text = (DOCS / PAGE).read_text("utf-8")
    assert page(text, kept) == text, "python -m ethos_hil.suites.lab baselines writes it"
    assert BaselineTable.of_text(kept.to_text()) == kept


def test_the_data_have_every_network_everywhere(kept: BaselineTable) -> None:
    assert kept.networks == tuple(NETWORKS)
    per_network = {name: len(kept.of_network(name)) for name in kept.networks}
    assert set(per_network.values()) == {4 * 2 + 2 * 3 + 5 * 3}
    for name in kept.networks:
        booted = [point.npu for point in kept.of_network(name) if point.verdict == "verified"]
        assert booted == ["ethos-u55-128", "ethos-u65-512", "ethos-u85-256"], name


def test_a_wrong_number_is_seen(kept: BaselineTable) -> None:
    text = (DOCS / PAGE).read_text("utf-8")
    first, *rest = kept.points
    assert first.cycles is not None
    damaged = replace(kept, points=(replace(first, cycles=first.cycles + 1000), *rest))
    assert page(text, damaged) != text
    assert differences(kept, kept) == []
    (message,) = differences(kept, damaged)
    assert message == f"{' '.join(first.key)}: cycles {first.cycles} -> {first.cycles + 1000}"
    (gone,) = differences(kept, replace(kept, points=tuple(rest)))
    assert gone.startswith(" ".join(first.key))
    assert "timing model" in differences(kept, replace(kept, timing_model="other"))[0]


def test_a_refused_point_is_a_row_with_its_reason() -> None:
    point = BaselinePoint(NETWORK, "ethos-u55-128", "Shared_Sram", "system", "failed", reason="no | room")
    row = point_row(point)
    assert "| u55-128 | Shared_Sram, default |" in row
    assert "failed: <code>no &#124; room</code> |" in row


def test_what_does_not_fit_the_board_is_said() -> None:
    point = BaselinePoint(NETWORK, "ethos-u55-128", "Sram_Only", "system", "compiled-only", clock_hz=1e9, cycles=8000,
                          sram_bytes=2048, fits=False)  # fmt: skip
    assert " 2.0 (too much) |" in point_row(point)
    assert " 2.0 |" in point_row(replace(point, fits=True))


def test_a_page_that_lacks_a_table_is_refused(kept: BaselineTable) -> None:
    text = (DOCS / PAGE).read_text("utf-8")
    with pytest.raises(UsageError, match="the page has the tables"):
        page(text.replace("<!-- baselines: overview -->", "<!-- baselines: nothing -->"), kept)


def test_unusable_arguments_are_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no network is called 'ds_cn'"):
        main(["ds_cn"], check=True, docs=tmp_path)
    with pytest.raises(UsageError, match="the page has all networks"):
        main(["ds_cnn"], docs=tmp_path)


def test_every_network_is_booted_once_for_each_generation() -> None:
    points = [point for point in plan_of(list(NETWORKS), ("ethos-u55-64", *NPUS)).points if is_booted(point.case)]
    assert len(points) == 2 * len(NETWORKS)
    assert {(point.npu, point.memory_mode) for point in points} == {
        ("ethos-u55-128", "Shared_Sram"),
        ("ethos-u85-256", "Sram_Only"),
    }
