"""The picture of a number over time, and what a history says where there is little in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.history import History
from ethos_hil.results.report.tests import samples
from ethos_hil.results.report.trend import NightScale, step_plot, trend
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


RECORD = samples.suite_of(1)[0]
assert RECORD.artifact is not None
CYCLES = tuple(replace(of, value=12345.0) if of.name == "npu_cycles" else of for of in RECORD.metrics)
EDITED = replace(RECORD, artifact=replace(RECORD.artifact, question="e" * 64), metrics=CYCLES)
"""The model after an edit. That its question is another one does not make its cycles stand still."""


@pytest.mark.parametrize("nights", [(RECORD, EDITED), (RECORD,)], ids=["edited", "one night"])
def test_a_history_says_what_moved(tmp_path: Path, nights: tuple[Record, ...], recorded: Recorded) -> None:
    keep(tmp_path, *([record] for record in nights), first=_FIRST)
    result = trend(History(tmp_path))
    assert result is not None
    steps = [f"{plot.title}: {plot.steps}" for plot in result.plots]
    recorded.check("\n".join([f"{result.runs}, moved {result.moved}", *steps]))


def test_a_history_without_times_has_no_trend(tmp_path: Path) -> None:
    compact_records([StoredRecord("n", "", replace(RECORD, created=""))], tmp_path)
    assert trend(History(tmp_path)) is None
