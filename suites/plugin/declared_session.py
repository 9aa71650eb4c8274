"""The part of the plugin for sessions that declare operators and models: it selects tests and completes their
reports.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ethos_hil.base.interruption import end_on_signals, restore
from ethos_hil.lowering.cache.settings import prepare_torch
from ethos_hil.suites.plugin import shared_run
from ethos_hil.suites.plugin.options import TALLY, Options
from ethos_hil.suites.plugin.pytest_items import DeclaredItem
from ethos_hil.suites.plugin.verdict_summary import Tally, suffix_of

if TYPE_CHECKING:
    from ethos_hil.results.selection import LeftOut


def join(config: pytest.Config) -> Tally:
    """Register this part with the session, once. Return the counter of the session's verdicts.

    Raises:
        pytest.UsageError: the options name something that does not exist, or contradict one another.
    """
    tally: Tally | None = config.pluginmanager.get_plugin(TALLY)
    if tally is None:
        if Options.of(config).shared:
            shared_run.enter(config)
        tally = Tally(config)
        config.pluginmanager.register(DeclaredSession(), "ethos-hil-session")
        config.pluginmanager.register(tally, TALLY)
        prepare_torch()
        _end_on_signals(config)
    return tally


def _end_on_signals(config: pytest.Config) -> None:
    """End the session as Ctrl-C does at SIGTERM, SIGHUP and SIGQUIT: boards are stopped and folders removed."""
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread can do this
    before = end_on_signals()
    config.add_cleanup(lambda: restore(before))


class DeclaredSession:
    """A pytest plugin for a session that declares something."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Path, str]] = {}
        self._deselected: set[str] = set()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note what is found, before any hook can take it out."""
        self._found[item.nodeid] = item.path, _suffix(item)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note what others do not choose."""
        self._deselected.update(item.nodeid for item in items)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Remove the tests that --suffix, --one-in and --shard do not select, and with --resume those that have run.

        For --suffix, the profile of a test function is the end of its name.
        """
        names = Counter(item.nodeid for item in items if isinstance(item, DeclaredItem))
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise pytest.UsageError(f"{twice[0]} is declared twice: give an operator or a case another name")
        options = Options.of(config)
        numbers: dict[Path, dict[tuple[str, str], int]] = {}
        kept: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            if isinstance(item, DeclaredItem):
                of_file = numbers.setdefault(item.path, {})
                number = of_file.setdefault(item.labels, len(of_file))
            else:
                number = 0
            suffix = _suffix(item)
            right = (not options.suffixes or suffix in options.suffixes) and number % options.one_in == 0
            right = right and (options.shard is None or options.shard.takes(*_case_of(item, suffix)))
            (kept if right else left).append(item)
        shared_run.keep_selection(config, kept, self._find_left_out(config, items, options))
        if options.shared:
            kept, done = shared_run.split(config, kept)
            left += done
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = kept

    def _find_left_out(self, config: pytest.Config, items: Sequence[pytest.Item], options: Options) -> LeftOut:
        from ethos_hil.results.selection import LeftOut

        there = {item.nodeid for item in items}
        mine = [name for name, (_, suffix) in self._found.items() if not options.suffixes or suffix in options.suffixes]
        gone = [name for name in mine if name not in there]
        files = {path for path, _ in self._found.values()}
        files |= {path.parent.resolve() / path.name for path in files}  # folders and files may be links
        places = {place for file in files for place in (file, *file.parents)}
        asked_for = {path: config.invocation_params.dir / path.partition("::")[0] for path in config.args}
        return LeftOut(
            tuple(item.nodeid for item in items if options.suffixes and not _suffix(item)),
            tuple(name for name in gone if name not in self._deselected),
            sum(name in self._deselected for name in gone),
            tuple(name for name, path in asked_for.items() if places.isdisjoint((path, path.resolve()))),
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many tests a resumed session did not run."""
        line = shared_run.already_recorded(terminalreporter.config)
        if line:
            terminalreporter.write_line(line)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the verdict to the report, and for a test that did not run the line of its declaration."""
        if not isinstance(item, DeclaredItem) or call.when != "call":
            return (yield)
        item.user_properties += item.properties()
        report = yield
        if report.skipped and not hasattr(report, "wasxfail"):
            report.longrepr = (str(item.path), item.line or 1, f"Skipped: {item.reason}")
        if item.record is not None:  # the record says more than torch's log
            report.sections = [section for section in report.sections if not section[0].startswith("Captured log")]
        return report


def _suffix(item: pytest.Item) -> str:
    """Return the profile of a test; "" for a function whose name has none."""
    return item.profile_name if isinstance(item, DeclaredItem) else suffix_of(_name(item)) or ""


def _name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))


def _case_of(item: pytest.Item, suffix: str) -> tuple[str, str]:
    """Return what all profiles of a test have in common, so that they are in one shard."""
    if isinstance(item, DeclaredItem):
        return item.labels
    return _name(item).removesuffix(f"_{suffix}"), ""
