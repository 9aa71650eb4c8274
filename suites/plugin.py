"""pytest plugin: turns declared operators into tests, one per case and profile.

In a conftest.py: `pytest_plugins = ["suites.plugin"]`. Any test file may then declare `suites.case.Operator`s.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from suites import profile
from suites.case import Operator

if TYPE_CHECKING:
    pass


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the suites."""
    group = parser.getgroup("ethos-hil", "operators and models on Arm Ethos-U")
    group.addoption(
        "--suffix",
        action="append",
        default=[],
        metavar="PROFILE",
        help="run only tests of this profile: MI (or FP), BI (or INT), U55_BI, U65_BI, U85_BI; repeatable",
    )
    group.addoption("--target", default="virtual", help="where NPU profiles run: virtual, corstone-300, corstone-320")
    group.addoption("--npu", action="append", default=[], metavar="NPU", help="the configuration of its family's tests")
    group.addoption("--memory-mode", default=None, help="as Vela names it; by default ExecuTorch's for the NPU")
    group.addoption("--compile-only", action="store_true", help="lower, and run nothing; no test passes then")


def pytest_configure(config: pytest.Config) -> None:
    """The markers that `-m` selects by."""
    for one in profile.PROFILES:
        config.addinivalue_line("markers", f"{one.marker}: tests of profile {one.name}")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> list[CaseItem] | None:
    """The tests of an operator that a test file declares."""
    if not isinstance(obj, Operator):
        return None
    return list(_items(collector, obj))


def _items(collector: pytest.Module, operator: Operator) -> Iterator[CaseItem]:
    for case in operator.cases:
        for name in operator.profiles:
            yield CaseItem.from_parent(
                collector, name=f"test_{operator.name}_{case.name}_{name}", operator=operator, case=case, profile=name
            )


class CaseItem(pytest.Item):
    """A case in a profile."""

    def __init__(self, *, operator: Operator, case: Any, profile: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.operator, self.case, self.profile_name = operator, case, profile
        self.add_marker(profile.removesuffix("_BI").lower())

    def runtest(self) -> None:
        """Lower, run, compare."""
        from suites.check import Declared, Settings, check

        test = Declared(self.operator, self.case, profile.parse(self.profile_name), self.path)
        record = check(test, Settings(self.config.getoption("--target")))
        if record.verdict != "verified":
            raise Unverified(record)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """In a line or two what is wrong; a traceback only where the harness itself is."""
        from lowering.errors import EthosHilError

        error = excinfo.value
        if isinstance(error, Unverified):
            failure = error.record.failure
            lines = [failure.kind, failure.message, failure.hint] if failure is not None else [error.record.verdict]
            return ": ".join(line for line in lines if line)
        if isinstance(error, EthosHilError):
            return ": ".join(line for line in (error.kind, error.message, error.hint) if line)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The declaring file."""
        return self.path, None, self.name


class Unverified(Exception):
    """A record that is not verified."""

    def __init__(self, record: Any) -> None:
        super().__init__(record.verdict)
        self.record = record
