"""How long sessions of the suites take: with one worker and with two, listed only, and with everything in the cache."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.lowering.cache.settings import CACHE_VARIABLE
from ethos_hil.suites.lab.measure.cost.figure import BenchPart, Figure, at_least, at_most

REPOSITORY = Path(__file__).resolve().parents[4]
_LISTINGS = 5


@dataclass(frozen=True)
class Sessions:
    """Wall seconds of sessions.

    Attributes:
        one_worker, two_workers: a quarter of the operators for an Ethos-U55, with an empty cache.
        listing: all suites, collected only.
        filling, cached: all operators in all profiles, before and after all of them are in the cache.
        jobs: workers of these two.
    """

    one_worker: float
    two_workers: float
    listing: float
    filling: float
    cached: float
    jobs: int


def session(arguments: Sequence[str], environment: Mapping[str, str], cwd: Path = REPOSITORY) -> float:
    """Run pytest, and return its wall seconds.

    Raises:
        ToolError: not all tests passed. The times of a broken build are not figures.
    """
    started = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    done = subprocess.run(command, cwd=cwd, env=dict(environment), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        log = REPOSITORY / "build/bench-suites.log"
        log.write_text(done.stdout + done.stderr)
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:]
        raise ToolError(f"pytest ended with status {done.returncode}: {' '.join(last)}", hint=f"see {log}")
    return seconds


def measure(live: Live) -> BenchPart:
    """Measure all figures of this part."""
    jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as name:
        runs = ["--runs", str(Path(name, "runs"))]
        quarter = []
        for count in (1, 2):
            live.stage(f"Running a quarter of the operators with {count} worker{'s' * (count > 1)}")
            options = ["--suffix", "U55_BI", "--one-in", "4", "-n", str(count), "--dist", "worksteal", *runs]
            empty = {**os.environ, CACHE_VARIABLE: str(Path(name, f"cache-{count}"))}
            quarter.append(session(["suites/ops", *options], empty))
        live.stage("Listing all tests")
        listing = statistics.median(session(["suites", "--collect-only"], os.environ) for _ in range(_LISTINGS))
        whole = []
        for stage in ("Lowering what the cache lacks of all operators", "Running all operators in all profiles"):
            live.stage(stage)
            whole.append(session(["suites/ops", "-n", str(jobs), "--dist", "worksteal", *runs], os.environ))
    return part(Sessions(quarter[0], quarter[1], listing, whole[0], whole[1], jobs))


def part(sessions: Sessions) -> BenchPart:
    """Return the figures of what was timed."""
    whole = f"all operators in all profiles, {sessions.jobs} workers"
    ratio = sessions.one_worker / sessions.two_workers
    return BenchPart(
        (
            Figure(
                "a session: time with one worker / with two", ratio, "times", "wall, one session each", at_least(1.7)
            ),
            Figure("pytest suites --collect-only", sessions.listing, "s", f"wall, median of {_LISTINGS}", at_most(1.5)),
            Figure(f"{whole}, lowering what the cache lacks", sessions.filling, "s", "wall, one session"),
            Figure(f"{whole}, cached", sessions.cached, "s", "wall, one session", at_most(180)),
        )
    )
