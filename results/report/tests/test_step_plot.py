"""The picture of a number over time, and what a history says where there is little in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.history import History
from ethos_hil.results.report.tests import samples
from ethos_hil.results.report.trend import NightScale, Trend, step_plot, trend
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.testing.synthetic_year import keep

_FIRST = datetime(2026, 11, 20, 2)


STEPS: dict[str, tuple[list[tuple[int, float]], tuple[float, ...]]] = {
    "far apart": ([(0, 1.0), (1, 2.0), (2, 3.0)], (0, 1, 10)),
    "each night": ([(0, 1.0), (1, 1.0), (2, 1.0)], (0, 1, 2)),
    "nights that are missing": ([(at, 1.0) for at in range(5)], (0, 1, 2, 5, 6)),
    "a night without the test": ([(0, 1.0), (2, 1.0)], (0, 1, 2)),
    "a hundredth of a percent": ([(0, 1_000_000.0), (1, 1_000_100.0)], (0, 1)),
    "a fifth": ([(0, 1_000_000.0), (1, 1_200_000.0)], (0, 1)),
    "one moment": ([(0, 0.0)], (0,)),
    "one moment twice": ([(0, 0.0), (1, 0.0)], (0, 0)),
}


@pytest.mark.parametrize("what", STEPS)
def test_steps_stand_where_they_were_in_time_with_gaps_where_nights_are_missing(what: str, recorded: Recorded) -> None:
    """And a change of a hundredth of a percent is not a cliff."""
    points, days = STEPS[what]
    plot = step_plot("n", points, NightScale([_FIRST + timedelta(days=day) for day in days]), [])
    recorded.check(str(plot).replace("><", ">\n<"))


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
