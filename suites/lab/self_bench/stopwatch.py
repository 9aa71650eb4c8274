"""pytest plugin: times the tests of a session.

`ethos_hil.suites.lab.self_bench.suite_tests` uses it to time upstream's tests and ours in the same way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Timed:
    """The time of one test.

    Attributes:
        name: as pytest has it.
        outcome: "passed", "failed" or "skipped", or the word of a plugin.
        wall: seconds of the test itself, without set-up and what comes after.
        cpu: seconds that the session's process spent in it, and the processes that it started and that ended in it.
    """

    name: str
    outcome: str
    wall: float
    cpu: float


def read(path: Path) -> tuple[Timed, ...]:
    """Return the times that a session wrote, in the order in which its tests ended."""
    return tuple(Timed(**entry) for entry in json.loads(path.read_text("utf-8")))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that the benchmark uses."""
    group = parser.getgroup("stopwatch")
    group.addoption("--stopwatch", metavar="FILE", help="write what was timed")
    group.addoption("--stopwatch-tests", type=int, metavar="N", help="run N of the tests selected, evenly spread")


def pytest_configure(config: pytest.Config) -> None:
    """Time the tests in sessions of one process."""
    if config.getoption("stopwatch") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Stopwatch(Path(config.getoption("stopwatch"))))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Keep the wanted number of tests, evenly spread over those that other plugins selected."""
    yield
    wanted = config.getoption("stopwatch_tests")
    if wanted is not None and wanted < len(items):
        items[:] = [items[index * len(items) // wanted] for index in range(wanted)]


class _Stopwatch:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._timed: list[Timed] = []
        self._cpu = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None]:
        before = _cpu()
        try:
            yield
        finally:
            self._cpu = _cpu() - before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._timed.append(Timed(report.nodeid, report.outcome, report.duration, self._cpu))

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps([asdict(timed) for timed in self._timed]), "utf-8")


def _cpu() -> float:
    return sum(os.times()[:4])
