"""What a year of nightly runs costs: bytes, seconds to add a night, for every question, and for the morning's report.

A part of `make bench`. The year is made from a seed. Questions are asked in a process of their own, whose memory is
measured.
"""

from __future__ import annotations

import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.results.gate.gate import gate, side
from ethos_hil.results.history import History, compact, compact_records
from ethos_hil.results.report.report import report
from ethos_hil.results.run_results import read_results
from ethos_hil.results.store import RunFolder
from ethos_hil.results.testing.synthetic_year import METRICS, NIGHTS, TESTS, nights
from ethos_hil.suites.lab.measure.cost.figure import BenchPart, Figure, at_most

ASKED_BYTES, ASKED_SECONDS, ASKED_MEMORY = 100e6, 1.0, 1e9
ASKED_COMPARISON, ASKED_REPORT, ASKED_REPORT_BYTES = 5.0, 10.0, 5e6
_ROUNDS = 3
_ONE = "test_operator07_case03_U85_BI"
QUESTIONS: Mapping[str, Callable[[History], int]] = {
    "all runs": lambda history: len(history.runs()),
    "every number that changed": lambda history: len(history.changes()),
    "one number of one test": lambda history: len(history.points(_ONE)),
    "what changed in one test": lambda history: len(history.changes(_ONE)),
    "sum of a metric, by run": lambda history: len(
        history.rows("SELECT run, sum(value) FROM points WHERE metric = 'npu_cycles' GROUP BY run")
    ),
    "median of each wall time": lambda history: len(
        history.rows("SELECT label, metric, median(value) FROM points WHERE provenance = 'host' GROUP BY ALL")
    ),
}


def measure(live: Live, *, count: int = NIGHTS, tests: int = TESTS) -> BenchPart:
    """Measure all figures of this part, of a history of so many nights and tests.

    Raises:
        ToolError: an answer is not what the year has.
    """
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as place:
        folder = Path(place, "history")
        live.stage("Making a year of nightly runs")
        adding: list[float] = []
        for number, night in enumerate(nights(count=count, tests=tests)):
            start = time.perf_counter()
            compact_records(night, folder)
            adding.append(time.perf_counter() - start)
            live.step(number + 1, count)
        run = RunFolder(Path(place, "runs"), name="night")
        (run.path / "records-1.jsonl").write_text("\n".join(item.record.dumps() for item in night) + "\n")
        start = time.perf_counter()
        compact(run.path, Path(place, "other"))
        whole = time.perf_counter() - start
        live.stage("Asking")
        size = sum(path.stat().st_size for path in folder.iterdir())
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            answers, memory = pool.submit(_ask, folder).result()
        live.stage("Comparing and reporting")
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            morning = pool.submit(_report, run.path, folder, f"night{count - 2:03}").result()
    if answers["all runs"][0] != count or answers["one number of one test"][0] != count:
        raise ToolError(f"the history of {count} nights has {answers['all runs'][0]} runs")
    points = count * tests * METRICS
    figures = [
        Figure(f"history of {count} nights, {points:,} points", size / 1e6, "MB", "files", at_most(ASKED_BYTES / 1e6)),
        Figure(f"add a night of {tests:,} records from its run folder", whole, "s", "wall", at_most(5)),
        Figure("of that, from records in memory", statistics.median(adding), "s", f"wall, median of {count}"),
    ]
    provenance = f"wall, median of {_ROUNDS}"
    figures += [
        Figure(f"history: {name} ({rows:,} rows)", seconds, "s", provenance, at_most(ASKED_SECONDS))
        for name, (rows, seconds) in answers.items()
    ]
    figures.append(Figure("memory of these questions", memory / 1e6, "MB", "largest RSS", at_most(ASKED_MEMORY / 1e6)))
    return BenchPart((*figures, *morning))


def _report(run: Path, folder: Path, night_before: str) -> list[Figure]:
    """Return what it costs to compare a night with the one before, and to report it with a year of history."""
    start = time.perf_counter()
    before = side(night_before, folder)
    comparison = gate(before, side(str(run)))
    compared = time.perf_counter()
    content = report(read_results([run]), comparison, History(folder))
    end = time.perf_counter()
    memory = peak_memory()
    subjects = f"{comparison.subjects:,} tests"
    return [
        Figure(f"compare a night with the one before ({subjects})", compared - start, "s", "wall",
               at_most(ASKED_COMPARISON)),
        Figure(f"report of a night with a year of history ({subjects})", end - compared, "s", "wall",
               at_most(ASKED_REPORT)),
        Figure("size of that report", len(content) / 1e6, "MB", "file", at_most(ASKED_REPORT_BYTES / 1e6)),
        Figure("memory of comparison and report", memory / 1e6, "MB", "largest RSS", at_most(ASKED_MEMORY / 1e6)),
    ]  # fmt: skip


def _ask(folder: Path) -> tuple[dict[str, tuple[int, float]], float]:
    """Return for each question the rows of the answer and the seconds it took; and the bytes that were needed."""
    answers: dict[str, tuple[int, float]] = {}
    for name, question in QUESTIONS.items():
        seconds, rows = [], 0
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            rows = question(History(folder))
            seconds.append(time.perf_counter() - start)
        answers[name] = rows, statistics.median(seconds)
    return answers, peak_memory()


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes.

    `getrusage` is no use for this: Linux counts what the process had before `exec`, so that a process started by a
    large one starts with the size of that one (`exec_mmap` in fs/exec.c).
    """
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)[1]) << 10  # type: ignore[index]
