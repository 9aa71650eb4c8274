"""pytest plugin: turns declared operators and models into tests, one per case and profile.

In a conftest.py: `pytest_plugins = ["ethos_hil.suites.plugin.hooks"]`. Any test file may then declare `Operator`s
(`suites.declare.case`) and `Model`s (`suites.declare.model_case`). docs/suites.md says how to use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.suites.declare import profile
from ethos_hil.suites.declare.case import Operator
from ethos_hil.suites.declare.model_case import Model
from ethos_hil.suites.plugin import options
from ethos_hil.suites.plugin.options import OPTIONS, Options
from ethos_hil.suites.plugin.pytest_items import CaseItem, DeclaredItem, ModelItem
from ethos_hil.suites.plugin.verdict_summary import Tally, suffix_of
from ethos_hil.suites.trial import model_fingerprint

_SUITES = Path(model_fingerprint.__file__).resolve().parents[1]
"""Of the module that notes when the session began: imported before any test file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the suites."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """The options, the markers that `-m` selects by, and the words for verdicts."""
    config.stash[OPTIONS] = Options.of(config)
    for one in profile.PROFILES:
        config.addinivalue_line("markers", f"{one.marker}: tests of profile {one.name}")
    config.pluginmanager.register(Tally(config), "ethos-hil-tally")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of pytest-xdist where this session's records are kept."""
    node.workerinput[options.RUN] = node.config.stash[OPTIONS].run


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`pytest suites` is for what the suites test; the tests of the suites themselves are run when they are named."""
    if collection_path.name != "tests" or not collection_path.is_relative_to(_SUITES):
        return None
    named = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    nearest = max(
        (path for path in named if collection_path.is_relative_to(path)), key=lambda p: len(p.parts), default=None
    )
    return True if nearest == _SUITES else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> list[DeclaredItem] | None:
    """The tests of what a test file declares."""
    if isinstance(obj, Operator):
        return list(_of_operator(collector, obj))
    return list(_of_model(collector, obj)) if isinstance(obj, Model) else None


def _of_operator(collector: pytest.Module, operator: Operator) -> Iterator[DeclaredItem]:
    for case in operator.cases:
        for name in case.profiles:
            test = f"test_{operator.name}_{case.name}_{name}"
            yield CaseItem.from_parent(collector, name=test, operator=operator, case=case, profile=name)


def _of_model(collector: pytest.Module, model: Model) -> Iterator[DeclaredItem]:
    for name in model.profiles:
        yield ModelItem.from_parent(collector, name=f"test_{model.name}_{name}", model=model, profile=name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what --suffix and --one-in do not select.

    A test that is written as a function counts for --suffix by the end of its name.
    """
    names = Counter(item.nodeid for item in items if isinstance(item, DeclaredItem))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise pytest.UsageError(f"{twice[0]} is declared twice: give an operator or a case another name")
    asked = config.stash[OPTIONS]
    numbers: dict[Path, dict[tuple[str, str], int]] = {}
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        if isinstance(item, DeclaredItem):
            of_file = numbers.setdefault(item.path, {})
            number, suffix = of_file.setdefault(item.labels, len(of_file)), item.profile_name
        else:
            number, suffix = 0, suffix_of(getattr(item, "originalname", item.name)) or ""
        right = (not asked.suffixes or suffix in asked.suffixes) and number % asked.one_in == 0
        (kept if right else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Says the verdict in the report, and of a test that was not run where it is declared."""
    if not isinstance(item, DeclaredItem) or call.when != "call":
        return (yield)
    item.user_properties += item.properties()
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.longrepr = (str(item.path), item.line or 1, f"Skipped: {item.reason}")
    if item.record is not None:  # what torch logs says nothing that the record does not say better
        report.sections = [section for section in report.sections if not section[0].startswith("Captured log")]
    return report
