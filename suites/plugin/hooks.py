"""The pytest plugin: it turns declared operators and models into tests, one per case and profile.

It is an entry point of the package: where ethos-hil is installed, any test file may declare `Operator`s
(`suites.declare.case`) and `Model`s (`suites.declare.model_case`). docs/suites.md describes its use.

So every pytest session of that environment loads this module, also in other projects. There it changes nothing and
costs very little: it imports little more than pytest, its options give way to others of the same name, and the rest of
the plugin (`declared_session`) is imported and registered only when one of the options is given or a test declares
something.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ethos_hil.base.suffix import SUFFIXES, marker_of
from ethos_hil.lowering.made_from.file_watch import WATCH  # before any test file is imported
from ethos_hil.suites.plugin import options
from ethos_hil.suites.plugin.options import CRASHED, RUN, TALLY

if TYPE_CHECKING:
    from ethos_hil.suites.plugin.pytest_items import DeclaredItem
    from ethos_hil.suites.plugin.verdict_summary import Tally

_SUITES = Path(__file__).resolve().parents[1]
_DECLARING = frozenset({"ethos_hil.suites.declare.case", "ethos_hil.suites.declare.model_case"})
"""The modules that every declaration imports."""
_ENDINGS = tuple(f"_{suffix}" for suffix in SUFFIXES)
WATCH.begin()  # a conftest.py may be imported next


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser
) -> Generator[None, object, object]:
    """Add the options of the suites, after those of every conftest.py."""
    WATCH.begin()  # again, in the second session of a process
    result = yield
    options.add(parser, early_config)
    return result


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers for `-m`; check the options if some are given."""
    for suffix in SUFFIXES:
        config.addinivalue_line("markers", f"{marker_of(suffix)}: tests of profile {suffix}")
    config.pluginmanager.register(_FirstVerdict(config), "ethos-hil-first-verdict")
    if options.is_given(config):
        _join(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist the folder of this session's records. The controller imports no test file."""
    WATCH.end_of_collection(declared=False)
    node.workerinput[RUN] = options.run_name(node.config)
    if options.names_run(node.config):
        from ethos_hil.suites.plugin.declared_session import tell_worker

        tell_worker(node)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the suites' own tests for `pytest suites`: they run only when they are named."""
    if collection_path.name != "tests" or not collection_path.is_relative_to(_SUITES):
        return None
    named = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    nearest = max(
        (path for path in named if collection_path.is_relative_to(path)), key=lambda p: len(p.parts), default=None
    )
    return True if nearest == _SUITES else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> list[DeclaredItem] | None:
    """Return the tests that a test file declares."""
    if _DECLARING.isdisjoint(sys.modules):
        return None
    from ethos_hil.suites.plugin.pytest_items import items_of

    items = items_of(collector, obj)
    if items is not None:
        _join(collector.config)
    return items


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Watch what code opens no longer where nothing is declared."""
    WATCH.end_of_collection(declared=not _DECLARING.isdisjoint(sys.modules))


class _FirstVerdict:
    """Waits for the first test that states a verdict: this process may collect none, as xdist's controller does."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._lost: list[pytest.TestReport] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Run before the terminal shows the report and asks for the verdict's word."""
        if self._config.pluginmanager.hasplugin(TALLY):
            return
        if report.when == CRASHED:
            self._lost.append(report)  # it states nothing, and counts when another test does
            return
        stated = any(name == "verdict" for name, _ in report.user_properties)
        if stated and report.nodeid.partition("[")[0].endswith(_ENDINGS):
            tally = _join(self._config)
            for test_report in (*self._lost, report):  # the tally does not get this call
                tally.pytest_runtest_logreport(test_report)


def _join(config: pytest.Config) -> Tally:
    """Register the rest of the plugin. Return the counter of verdicts. Raises pytest.UsageError."""
    from ethos_hil.suites.plugin.declared_session import join

    return join(config)
