"""pytest plugin: starts no test after a given time, and says how many were run.

Every process that runs tests looks at the clock itself. pytest-xdist's wish to stop is not enough: a worker told to
shut down first runs what it was handed, and with `--dist worksteal` that is its share of all tests.
"""

from __future__ import annotations

import os
import time

import pytest

from ethos_hil.suites.lab.changed import STOP_AFTER

_REASON = "the time is up"


class Clock:
    """In a process that runs tests."""

    def __init__(self, end: float) -> None:
        self._end = end

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """The session stops instead of a test whose turn comes after the time is up."""
        if time.time() < self._end:
            return None
        item.session.shouldstop = _REASON
        return True


class RunCounter:
    """In the process that shows results."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._done = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts what was run."""
        self._done += report.when == "call" or (report.when == "setup" and report.skipped)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What was left out."""
        if self._stopped():
            terminalreporter.write_line(f"the time was up after {self._done} tests; `make test` runs the others")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """That the time was up is not a failure."""
        if self._stopped() and session.testsfailed == 0:
            session.exitstatus = 0

    def _stopped(self) -> bool:
        # pytest-xdist takes its workers' reason to stop into a session of its own (3.8, dsession.py).
        plugins = (self._config.pluginmanager.get_plugin(name) for name in ("dsession", "session"))
        return any(getattr(plugin, "shouldstop", None) == _REASON for plugin in plugins)


def pytest_configure(config: pytest.Config) -> None:
    """The clock in workers and in a session without them, the account where results are shown."""
    end = os.environ.get(STOP_AFTER)
    if end is None:
        return
    config.pluginmanager.register(Clock(float(end)), "ethos-hil-clock")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunCounter(config), "ethos-hil-account")
