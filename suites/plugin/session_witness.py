"""Keeps in a named run folder what pytest calls failed, and how the session ended: not only a verdict can be red."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.suites.plugin.shared_names import CRASHED

if TYPE_CHECKING:
    from ethos_hil.suites.plugin.options import Options

_MESSAGE = 300
"""Characters of a message that are kept."""


class SessionWitness:
    """A pytest plugin for the process that hears of every test: the only one, or the controller of pytest-xdist."""

    def __init__(self, options: Options) -> None:
        """Forget what an earlier session said of its end. Raises OSError."""
        from ethos_hil.results.selection import forget_end

        self._options = options
        self._complaints: dict[tuple[str, str], str] = {}
        self._unseen: list[str] = []
        self._ran: set[str] = set()
        self._idle: set[str] = set()
        forget_end(options.run_folder, options.part, options.attempt)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that failed in any way, and one that ran and states no verdict."""
        if report.failed:
            self._complain(report.nodeid, "crash" if report.when == CRASHED else str(report.when), _message(report))
        elif (report.when == "call" or report.skipped) and "verdict" not in dict(report.user_properties):
            self._ran.add(report.nodeid)
            if report.skipped and not hasattr(report, "wasxfail"):
                self._idle.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that could not be collected, or that skipped itself whole: nobody knows which tests it has."""
        if report.failed:
            self._complain(report.nodeid, "collect", _message(report))
        elif report.skipped:
            self._unseen.append(f"{report.nodeid}: {_message(report)}")

    def _complain(self, name: str, when: str, message: str) -> None:
        """Note what failed, and keep it at once: what resumes a session that is killed now has to know.

        Where that fails, the session ends.
        """
        from ethos_hil.results.selection import ReportedFailure, complain

        self._complaints[name, when] = message
        complain(self._options.run_folder, self._options.part, ReportedFailure(name, when, message))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int | pytest.ExitCode) -> None:
        """Keep all of it. Where that fails, the session has no end, which is red."""
        from ethos_hil.results.selection import ReportedFailure, SessionEnd

        options = self._options
        complaints = tuple(ReportedFailure(*key, message) for key, message in self._complaints.items())
        end = SessionEnd(options.part, options.attempt, int(exitstatus), complaints, tuple(self._unseen),
                         frozenset(self._ran), str(options.shard or ""), frozenset(self._idle))  # fmt: skip
        with contextlib.suppress(OSError):
            end.write(options.run_folder)


def _message(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    lines = (text or report.longreprtext).strip().splitlines() or [""]
    return cut(one_line(lines[0 if text else -1]), _MESSAGE)
