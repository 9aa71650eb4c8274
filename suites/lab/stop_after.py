"""pytest plugin: ends a session at a given time, and says how many tests did not get their turn."""

from __future__ import annotations

import os
import time

import pytest

from ethos_hil.suites.lab.changed import STOP_AFTER


class StopAfter:
    """Counts what is run, in the process that shows it."""

    def __init__(self, config: pytest.Config, end: float) -> None:
        self._config = config
        self._end = end
        self._done = 0
        self._stopped = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Stop at the first test that ends after the time is up."""
        self._done += report.when == "call" or (report.when == "setup" and report.skipped)
        if time.time() < self._end or self._stopped:
            return
        self._stopped = True
        # pytest-xdist's session has a wish to stop of its own (3.8, dsession.py).
        plugins = self._config.pluginmanager
        for session in (plugins.get_plugin("dsession"), plugins.get_plugin("session")):
            if session is not None:
                session.shouldstop = "the time is up"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What was left out."""
        if self._stopped:
            terminalreporter.write_line(f"the time was up after {self._done} tests; `make test` runs the others")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """That the time was up is no failure."""
        if self._stopped and session.testsfailed == 0:
            session.exitstatus = 0


def pytest_configure(config: pytest.Config) -> None:
    """In the process that shows results; workers only run tests."""
    end = os.environ.get(STOP_AFTER)
    if end is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(StopAfter(config, float(end)), "ethos-hil-stop-after")
