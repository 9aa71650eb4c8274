"""The time of a test of the suites, compared with ExecuTorch's own test of the same operator.

Ours lowers an operator for an Ethos-U55, packs it, boots it on the virtual board and compares every output; upstream's
lowers it to TOSA INT and compares the reference model's answer. pytest runs both, operator by operator in turn. The
median time of the tests counts, without the first test of each session, which imports torch. "Warm" is our session
again, with what it lowered. Thresholds are of wall times. Ratios of CPU times say as much, and do not depend on what
else the machine does.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.prove.upstream.setting import Setting, tests_root
from ethos_hil.suites.lab.self_bench.figure import BenchPart, Figure, at_least, at_most
from ethos_hil.suites.lab.self_bench.stopwatch import Timed, read

_CACHE = "ETHOS_HIL_CACHE"
REPOSITORY = Path(__file__).resolve().parents[3]
TESTS = 7
"""Of each operator, ours and upstream's."""


@dataclass(frozen=True)
class Pair:
    """An operator, the file with our tests of it, and the file with upstream's."""

    operator: str
    ours: str
    upstream: str


PAIRS = (
    Pair("add", "test_elementwise.py", "test_add.py"),
    Pair("conv2d", "test_convolution.py", "test_conv2d.py"),
    Pair("linear", "test_matmul.py", "test_linear.py"),
    Pair("avg_pool2d", "test_pool.py", "test_avg_pool2d.py"),
    Pair("softmax", "test_activation.py", "test_softmax.py"),
    Pair("cat", "test_shape.py", "test_cat.py"),
)


@dataclass(frozen=True)
class Times:
    """Median seconds of a test."""

    wall: float
    cpu: float

    def over(self, other: Times) -> tuple[float, float]:
        """Return this time over another, for wall and CPU time."""
        return self.wall / other.wall, self.cpu / other.cpu


@dataclass(frozen=True)
class Compared:
    """The times of the tests of an operator."""

    operator: str
    cold: Times
    upstream: Times
    warm: Times


def session(arguments: Sequence[str], environment: dict[str, str], cwd: Path = REPOSITORY) -> float:
    """Run pytest, and return its wall seconds.

    Raises:
        ToolError: not all tests passed. The times of a broken build are not figures.
    """
    started = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        log = REPOSITORY / "build/bench-suites.log"
        log.write_text(done.stdout + done.stderr)
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:]
        raise ToolError(f"pytest ended with status {done.returncode}: {' '.join(last)}", hint=f"see {log}")
    return seconds


def timed(arguments: Sequence[str], folder: Path, environment: dict[str, str], cwd: Path = REPOSITORY) -> Times:
    """Return the median times of `TESTS` tests after the first of a session. Raise ToolError when one fails."""
    path = folder / "timed.json"
    stopwatch = [
        "-p",
        "ethos_hil.suites.lab.self_bench.stopwatch",
        "--stopwatch",
        str(path),
        "--stopwatch-tests",
        str(TESTS + 1),
    ]
    session([*stopwatch, *arguments], environment, cwd)
    tests: tuple[Timed, ...] = read(path)
    if len(tests) < 3 or any(test.outcome != "passed" for test in tests):
        raise ToolError(f"of {' '.join(arguments)} not all tests passed, or there were less than 3: {tests}")
    return Times(statistics.median(test.wall for test in tests[1:]), statistics.median(test.cpu for test in tests[1:]))


def compare(pair: Pair, setting: Setting) -> Compared:
    """Time the tests of an operator: ours cold and warm, and upstream's."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {_CACHE: cache}
        ours = [f"suites/ops/{pair.ours}", "--suffix", "U55_BI", "-k", f"test_{pair.operator}_", *_kept(setting.folder)]
        cold = timed(ours, setting.folder, environment)
        root = tests_root()
        theirs = ["-c", os.devnull, "--rootdir", str(root), "-p", "no:cacheprovider", "--disable-warnings"]
        theirs += [str(root / "ops" / pair.upstream), "-k", "tosa_INT"]
        variables = setting.environment(1) | {"PYTHONPATH": str(REPOSITORY / "src")}
        upstream = timed(theirs, setting.folder, variables, setting.folder / "work")
        return Compared(pair.operator, cold, upstream, timed(ours, setting.folder, environment))


def workers(count: int, folder: Path) -> float:
    """Return the wall seconds of a quarter of the operators' tests for Ethos-U55, with `count` workers and no cache."""
    with tempfile.TemporaryDirectory() as cache:
        options = ["--suffix", "U55_BI", "--one-in", "4", "-n", str(count), "--dist", "worksteal", *_kept(folder)]
        return session(["suites/ops", *options], os.environ | {_CACHE: cache})


def nightly(folder: Path, *, jobs: int) -> float:
    """Return the wall seconds of all operators in all profiles, with the user's cache."""
    return session(["suites/ops", "-n", str(jobs), "--dist", "worksteal", *_kept(folder)], dict(os.environ))


def collecting() -> float:
    """Return the median wall seconds of listing the tests of all suites."""
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        session(["suites", "--collect-only"], dict(os.environ))
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _kept(folder: Path) -> list[str]:
    """Return the options that say where our sessions keep their records."""
    return ["--runs", str(folder / "runs")]


def table(rows: Sequence[Compared]) -> Table:
    """Return a table with a row for each operator, and one for all together."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("wall s a test, median", "ours, cold", "upstream", "ratio", "of CPU", "ours, warm", "times faster"):
        grid.add_column(column, justify="left" if column.startswith("wall") else "right")
    for row in (*rows, total(rows)):
        ratios = [f"{ratio:.2f}" for ratio in row.cold.over(row.upstream)]
        cells = [f"{row.cold.wall:.2f}", f"{row.upstream.wall:.2f}", *ratios, f"{row.warm.wall:.3f}"]
        grid.add_row(row.operator, *cells, f"{row.upstream.over(row.warm)[0]:.0f}")
    return grid


def total(rows: Sequence[Compared]) -> Compared:
    """Return the sums over all operators, as of one test of each."""
    times = ([getattr(row, name) for row in rows] for name in ("cold", "upstream", "warm"))
    sums = (Times(sum(entry.wall for entry in column), sum(entry.cpu for entry in column)) for column in times)
    return Compared("one of each", *sums)


def measure(live: Live) -> BenchPart:
    """Measure all figures of this part."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        setting = Setting.without(folder)
        rows = []
        for number, pair in enumerate(PAIRS):
            live.stage(f"Timing the tests of {pair.operator} and upstream's")
            live.step(number, len(PAIRS))
            rows.append(compare(pair, setting))
        seconds = []
        for count in (1, 2):
            live.stage(f"Running a quarter of the operators with {count} worker{'s' * (count > 1)}")
            seconds.append(workers(count, folder))
        live.stage("Listing all tests")
        listing = collecting()
        jobs = os.cpu_count() or 1
        live.stage("Lowering what the cache lacks of all operators")
        filling = nightly(folder, jobs=jobs)
        live.stage("Running all operators in all profiles")
        whole = nightly(folder, jobs=jobs)
    return part(rows, Sessions(seconds[0], seconds[1], listing, filling, whole, jobs))


@dataclass(frozen=True)
class Sessions:
    """Wall seconds of sessions.

    Attributes:
        one_worker, two_workers: a quarter of the operators' tests, from an empty cache.
        listing: of all tests.
        filling: all operators in all profiles, lowering what the cache lacks.
        cached: the same again.
        jobs: workers of these two.
    """

    one_worker: float
    two_workers: float
    listing: float
    filling: float
    cached: float
    jobs: int


def part(rows: Sequence[Compared], sessions: Sessions) -> BenchPart:
    """Return the figures of what was timed."""
    sums = total(rows)
    slower, faster = sums.cold.over(sums.upstream), sums.upstream.over(sums.warm)
    medians = f"sum of medians of {TESTS} tests"
    whole = f"all operators in all profiles, {sessions.jobs} workers"
    figures = (
        Figure("a test, cold: our time / upstream's", slower[0], "times", f"wall, {medians}", at_most(1.3)),
        Figure("a test, cold: our CPU time / upstream's", slower[1], "times", f"CPU, {medians}"),
        Figure("a test, warm: upstream's time / ours", faster[0], "times", f"wall, {medians}", at_least(8)),
        Figure("a test, warm: upstream's CPU time / ours", faster[1], "times", f"CPU, {medians}"),
        Figure(
            "a session: time with one worker / with two",
            sessions.one_worker / sessions.two_workers,
            "times",
            "wall, one session each",
            at_least(1.7),
        ),
        Figure("pytest suites --collect-only", sessions.listing, "s", "wall, median of 5", at_most(1.5)),
        Figure(f"{whole}, lowering what the cache lacks", sessions.filling, "s", "wall, one session"),
        Figure(f"{whole}, cached", sessions.cached, "s", "wall, one session", at_most(180)),
    )
    return BenchPart(figures, (table(rows),), {"tests": [asdict(row) for row in rows]})
