"""The picture of a number over time, and what a history says where there is little in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from ethos_hil.base.record import Record
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.history import History
from ethos_hil.results.report.tests import samples
from ethos_hil.results.report.trend import NightScale, Trend, step_plot, trend
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.testing.synthetic_year import keep

_FIRST = datetime(2026, 11, 20, 2)


def scale(*days: float) -> NightScale:
    return NightScale([_FIRST + timedelta(days=day) for day in days])


def texts(plot: str) -> list[str]:
    return re.findall(r">([^<]+)</text>", plot)


def series(plot: str) -> str:
    (path,) = re.findall(r'd="([^"]*)" class="series"', plot)
    return path


def heights(plot: str) -> list[float]:
    return [float(number) for number in re.findall(r"(?:M[\d.]+ |V)([\d.]+)", series(plot))]


def test_runs_stand_where_they_were_in_time_below_dates() -> None:
    plot = step_plot("n", [(0, 1.0), (1, 2.0), (2, 3.0)], scale(0, 1, 10), [])
    first = float(series(plot)[1:].partition(" ")[0])
    xs = [first, *(float(number) for number in re.findall(r'cx="([\d.]+)"', plot))]
    assert (xs[2] - xs[1]) / (xs[1] - xs[0]) > 8.9
    assert [text for text in texts(plot) if "Nov" in text][:2] == ["21 Nov", "24 Nov"]


def test_there_is_a_gap_where_a_night_is_missing_or_the_test_did_not_run() -> None:
    assert series(step_plot("n", [(0, 1.0), (1, 1.0), (2, 1.0)], scale(0, 1, 2), [])).count("M") == 1
    assert series(step_plot("n", [(at, 1.0) for at in range(5)], scale(0, 1, 2, 5, 6), [])).count("M") == 2
    assert series(step_plot("n", [(0, 1.0), (2, 1.0)], scale(0, 1, 2), [])).count("M") == 2


def test_a_change_of_a_hundredth_of_a_percent_is_not_a_cliff() -> None:
    small = heights(step_plot("n", [(0, 1_000_000.0), (1, 1_000_100.0)], scale(0, 1), []))
    large = heights(step_plot("n", [(0, 1_000_000.0), (1, 1_200_000.0)], scale(0, 1), []))
    assert abs(small[0] - small[1]) < 2
    assert abs(large[0] - large[1]) > 70


def test_a_scale_of_one_moment_is_no_error() -> None:
    assert "M" in series(step_plot("n", [(0, 0.0)], scale(0), []))
    assert "M" in series(step_plot("n", [(0, 0.0), (1, 0.0)], scale(0, 0), []))


def trend_of(folder: Path, *nights: Sequence[Record]) -> Trend | None:
    keep(folder, *nights, first=_FIRST)
    return trend(History(folder))


def edited(record: Record, cycles: float) -> Record:
    """The model after an edit: another question, other cycles."""
    assert record.artifact is not None
    metrics = tuple(
        replace(metric, value=cycles) if metric.name == "npu_cycles" else metric for metric in record.metrics
    )
    return replace(record, artifact=replace(record.artifact, question="e" * 64), metrics=metrics)


def test_an_edited_model_moved(tmp_path: Path) -> None:
    """Its question is another one; that does not make its cycles stand still."""
    record = samples.suite_of(1)[0]
    result = trend_of(tmp_path, [record], [edited(record, 12345.0)])
    assert result is not None
    assert result.moved
    assert [plot.title for plot in result.plots] == [record.label]
    assert result.plots[0].steps[0][2] == "12,345"
    assert result.plots[0].steps[0][4] == "the model was edited"


def test_one_night_has_no_trend(tmp_path: Path) -> None:
    result = trend_of(tmp_path, samples.suite_of(3))
    assert result is not None
    assert (result.runs, result.plots) == ("one run so far", ())


def test_a_history_without_times_has_no_trend(tmp_path: Path) -> None:
    stored = [StoredRecord("n", "", replace(record, created="")) for record in samples.suite_of(1)]
    compact_records(stored, tmp_path)
    assert trend(History(tmp_path)) is None
