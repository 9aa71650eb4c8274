"""What a year of nightly runs costs: bytes, seconds to add a night, to ask, and for the morning's report.

The year is made from a seed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.results.compaction.run_file import compact, compact_records
from ethos_hil.results.gate.gate import gate, side
from ethos_hil.results.history import History
from ethos_hil.results.report.report import report
from ethos_hil.results.run_results import read_results
from ethos_hil.results.store import RunFolder
from ethos_hil.results.testing.synthetic_year import METRICS, NIGHTS, TESTS, nights
from ethos_hil.suites.lab.measure.cost.figure import Figure

_ONE = "test_operator07_case03_U85_BI"
Answer = TypeVar("Answer")


def measure(live: Live, *, count: int = NIGHTS, tests: int = TESTS) -> Iterator[Figure]:
    """Measure a history of so many nights and tests.

    Raises:
        ToolError: an answer is not what the year has.
    """
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as place:
        folder = Path(place, "history")
        live.stage("Making a year of nightly runs")
        for number, night in enumerate(nights(count=count, tests=tests)):
            compact_records(night, folder)
            live.step(number + 1, count)
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        points = count * tests * METRICS
        yield Figure(f"history of {count} nights, {points:,} points", size, "MB", "files", at_most=100)
        run = RunFolder(Path(place, "runs"), name="night")
        (run.path / "records-1.jsonl").write_text("\n".join(item.record.dumps() for item in night) + "\n")
        seconds, _ = _timed(lambda: compact(run.path, Path(place, "other")))
        yield Figure(f"add a night of {tests:,} records from its run folder", seconds, "s", "wall", at_most=5)
        live.stage("Asking, comparing and reporting")
        seconds, runs = _timed(History(folder).runs)
        if len(runs) != count or len(History(folder).points(_ONE)) != count:
            raise ToolError(f"the history of {count} nights has {len(runs)} runs")
        yield Figure("history: all runs", seconds, "s", "wall", at_most=1)
        seconds, changes = _timed(History(folder).changes)
        yield Figure(f"history: every number that changed ({len(changes):,} rows)", seconds, "s", "wall", at_most=1)
        seconds, comparison = _timed(lambda: gate(side(f"night{count - 2:03}", folder), side(str(run.path))))
        subjects = f"{comparison.subjects:,} tests"
        yield Figure(f"compare a night with the one before ({subjects})", seconds, "s", "wall", at_most=5)
        seconds, page = _timed(lambda: report(read_results([run.path]), comparison, History(folder)))
        yield Figure(f"report of a night with a year of history ({subjects})", seconds, "s", "wall", at_most=10)
        yield Figure("size of that report", len(page) / 1e6, "MB", "file", at_most=5)


def _timed(work: Callable[[], Answer]) -> tuple[float, Answer]:
    """Return the wall seconds of `work`, and what it returns."""
    started = time.perf_counter()
    answer = work()
    return time.perf_counter() - started, answer
