"""The part of the plugin for sessions that declare operators and models: it selects tests and completes their
reports.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.base.process import dies_with, end_on_signals
from ethos_hil.lowering.cache.contents import prepare_torch
from ethos_hil.suites.plugin.options import CONTROLLER, CRASHED, RECORDED, TALLY, Options, not_on_command_line
from ethos_hil.suites.plugin.pytest_items import DeclaredItem, run_folder
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
            enter_shared_run(config)
        tally = Tally(config)
        config.pluginmanager.register(DeclaredSession(), "ethos-hil-session")
        config.pluginmanager.register(tally, TALLY)
        prepare_torch()
        if threading.current_thread() is threading.main_thread():  # only it can end a session as Ctrl-C does
            config.add_cleanup(end_on_signals())
    return tally


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
        keep_selection(config, kept, self._find_left_out(config, items, options))
        if options.shared:
            kept, done = split_recorded(config, kept)
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
        line = already_recorded(terminalreporter.config)
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


# A run folder that several sessions write, one after the other: a nightly's, which may be resumed.
#
# It keeps what was chosen, what pytest calls failed, and how the session ended: not only a verdict can be red.

_DONE = pytest.StashKey[frozenset[str]]()
"""Key of the tests that are not run again, in pytest's configuration."""
_PATIENCE = 60.0
"""Seconds until the last process of a session that was killed has ended."""


def enter_shared_run(config: pytest.Config) -> None:
    """Begin to write the run folder. A worker dies with its controller from now on: who resumes a session that was
    killed has to know that no one writes any more.

    Raises:
        pytest.UsageError: the run folder cannot be written, or another session writes it that is to be resumed.
    """
    from ethos_hil.base.file_lock import Writing

    options = Options.of(config)
    controller = getattr(config, "workerinput", {}).get(CONTROLLER)
    if controller is None:
        foreign = not_on_command_line(config) if options.part else []
        if foreign:
            raise pytest.UsageError(
                f"the nightly does not ask for {', '.join(foreign)}: take it out of addopts and PYTEST_ADDOPTS, "
                "or say it in the nightly's file"
            )
        config.stash[_DONE] = _recorded_ids(options)
        config.pluginmanager.register(SessionWitness(options), "ethos-hil-witness")
    elif os.getppid() == controller:  # else it is on another machine
        dies_with(controller)()
    try:
        config.add_cleanup(Writing(options.run_folder).close)
    except OSError as error:
        raise _unusable(options, error) from None


def tell_worker(node: Any) -> None:
    """Tell a worker of pytest-xdist what is not run again: all of them must know the same."""
    node.workerinput[CONTROLLER] = os.getpid()
    node.workerinput[RECORDED] = sorted(node.config.stash.get(_DONE, ()))


def split_recorded(config: pytest.Config, items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return which of the tests that were chosen run, and which have run already."""
    worker_input = getattr(config, "workerinput", {})
    done = frozenset(worker_input[RECORDED]) if RECORDED in worker_input else config.stash.get(_DONE, frozenset())
    return [item for item in items if item.nodeid not in done], [item for item in items if item.nodeid in done]


def keep_selection(config: pytest.Config, items: list[pytest.Item], left: LeftOut) -> None:
    """Keep in the run folder what was chosen, before any of it runs: what then has no record is missing.

    Args:
        config: of the session.
        items: what was chosen.
        left: what was not.

    Raises:
        pytest.UsageError: it cannot be written.
    """
    from ethos_hil.results.selection import BadSelection, Selected, Selection

    options = Options.of(config)
    declared = [item for item in items if isinstance(item, DeclaredItem)]
    if config.option.collectonly or options.attempt > 1 or not (declared or options.shared):
        return
    npus = {name: str(profile.npu or "") for name, profile in options.profiles.items()}
    tests = tuple(Selected(it.nodeid, *it.labels, it.profile_name, npus[it.profile_name]) for it in declared)
    others = tuple(item.nodeid for item in items if not isinstance(item, DeclaredItem)) if options.shared else ()
    try:
        folder = run_folder(config)
        Selection(options.part, str(config.rootpath), tests, others, folder.info.shard, left).write(folder.path)
    except OSError as error:
        raise _unusable(options, error) from None
    except BadSelection as error:
        raise pytest.UsageError(f"{error}: choose another --run-name") from None


def already_recorded(config: pytest.Config) -> str:
    """Return a line about the tests that are not run again; "" where there are none."""
    done = config.stash.get(_DONE, frozenset())
    return f"already recorded in {Options.of(config).run}, and not run again: {len(done)}" if done else ""


def _recorded_ids(options: Options) -> frozenset[str]:
    if not options.resume:
        return frozenset()
    from ethos_hil.base.file_lock import wait_for_writers
    from ethos_hil.harness.campaign.recorded import settled_names
    from ethos_hil.results.selection import BadSelection, complaints_of
    from ethos_hil.results.store import mend

    try:
        if not wait_for_writers(options.run_folder, _PATIENCE):
            raise pytest.UsageError(f"another session writes {options.run_folder}: wait until it has ended")
        mend(options.run_folder)
        only = options.compile_only
        done = settled_names(options.run_folder, options.part, options.attempt, compile_only=only)
        # A record that is verified says nothing of a teardown that failed after it.
        return done - complaints_of(options.run_folder, options.part)
    except BadSelection:
        return frozenset()  # no one knows what failed
    except OSError as error:
        raise _unusable(options, error) from None


def _unusable(options: Options, error: OSError) -> pytest.UsageError:
    from ethos_hil.base.files import unreadable

    refusal = unreadable(error, options.run_folder, hint="choose another --runs", use="read or written")
    return pytest.UsageError(f"{refusal.message}: {refusal.hint}")


_OF_DECLARED = {"verdict", "profile", "source"}
"""Properties of a declared test that ran (`DeclaredItem.properties`)."""
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
        """Note a test that failed in any way, and one that ran and leaves no record: a function may state a verdict."""
        if report.failed:
            self._complain(report.nodeid, "crash" if report.when == CRASHED else str(report.when), _message(report))
        elif (report.when == "call" or report.skipped) and not dict(report.user_properties).keys() >= _OF_DECLARED:
            self._ran.add(report.nodeid)
            if report.skipped and not hasattr(report, "wasxfail"):
                self._idle.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that could not be collected, or that skipped itself whole: no one knows which tests it has."""
        if report.failed:
            self._complain(report.nodeid, "collect", _message(report))
        elif report.skipped:
            self._unseen.append(f"{report.nodeid}: {_message(report)}")

    def _complain(self, name: str, when: str, message: str) -> None:
        """Note what failed, and keep it at once, as what resumes a killed session has to know; else end the session."""
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
