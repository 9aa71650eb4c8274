"""How long sessions of the suites take: with one worker and with two, listed only, and with everything in the cache."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE
from ethos_hil.suites.lab.measure.cost.figure import Figure
from ethos_hil.suites.lab.shared import ROOT

_LISTINGS = 5


def session(arguments: Sequence[str], environment: Mapping[str, str], cwd: Path = ROOT) -> float:
    """Run pytest, and return its wall seconds.

    Raises:
        ToolError: not all tests passed. The times of a broken build are not figures.
    """
    started = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    done = subprocess.run(command, cwd=cwd, env=dict(environment), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        log = ROOT / "build/bench-suites.log"
        log.write_text(done.stdout + done.stderr)
        last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:]
        raise ToolError(f"pytest ended with status {done.returncode}: {' '.join(last)}", hint=f"see {log}")
    return seconds


def measure(live: Live) -> Iterator[Figure]:
    """Time a quarter of the operators for an Ethos-U55 from an empty cache, and all of them in all profiles."""
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as name:
        common = ["suites/ops", "--dist", "worksteal", "--runs", str(Path(name, "runs"))]
        quarter = []
        for count in (1, 2):
            live.stage(f"Running a quarter of the operators with {count} worker{'s' * (count > 1)}")
            empty = {**os.environ, CACHE_VARIABLE: str(Path(name, f"cache-{count}"))}
            quarter.append(session([*common, "--suffix", "U55_BI", "--one-in", "4", "-n", str(count)], empty))
        ratio, provenance = quarter[0] / quarter[1], "wall, one session each"
        yield Figure("a session: time with one worker / with two", ratio, "times", provenance, at_least=1.7)
        live.stage("Listing all tests")
        listing = statistics.median(session(["suites", "--collect-only"], os.environ) for _ in range(_LISTINGS))
        provenance = f"wall, median of {_LISTINGS}"
        yield Figure("pytest suites --collect-only", listing, "s", provenance, at_most=1.5)
        jobs = os.cpu_count() or 1
        whole = f"all operators in all profiles, {jobs} workers"
        for what, limit in ((f"{whole}, lowering what the cache lacks", None), (f"{whole}, cached", 180)):
            live.stage(f"Running {what}")
            yield Figure(what, session([*common, "-n", str(jobs)], os.environ), "s", "wall, one session", at_most=limit)
