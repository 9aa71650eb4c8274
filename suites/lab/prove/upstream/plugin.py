"""pytest plugin: runs a given list of upstream's tests, and records each as it ends.

Loaded with -p, in the process that starts pytest and, under xdist, in each worker. The tests stay as they are; the
functions through which upstream starts an FVP and calls Vela are wrapped, to see whether and how often a test reaches a
device, and to compare what the device answers with the reference model.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.errors import EthosHilError
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.upstream.patches.patch import VARIABLE, apply, patches_on
from ethos_hil.lowering.upstream.patches.table import CALLS_OF_VELA, SPEED, STARTS_OF_FVPS
from ethos_hil.suites.lab.prove.upstream.records import DeviceCall, Outcome, TestResult, append, device_of


class Oracle:
    """Answers programs that are compiled while it watches."""

    def __init__(self) -> None:
        self._tosa: dict[bytes, bytes] = {}  # of each delegate blob that Vela made

    def watching(self, compile_: Callable[..., bytes]) -> Callable[..., bytes]:
        """Wrap ExecuTorch's function that calls Vela, to keep its inputs and results."""

        def watched(tosa: bytes, *args: Any, **kwargs: Any) -> bytes:
            blob = compile_(tosa, *args, **kwargs)
            self._tosa[bytes(getattr(blob, "processed_bytes", blob))] = bytes(tosa)  # an object since executorch 1.5
            return blob

        return watched

    def forget(self) -> None:
        """Forget the programs of the test before."""
        self._tosa.clear()

    def difference(self, folder: Path) -> str:
        """Compare the outputs in a runner's folder: program.pte, i<n>.bin, out-<n>.bin.

        Returns:
            "" if every byte is as expected, else the first output that differs.

        Raises:
            EthosHilError: there is nothing to compare with.
        """
        artifact = Artifact.of_program((folder / "program.pte").read_bytes(), "program.pte")
        delegates = [
            dataclasses.replace(delegate, tosa=self._tosa.get(delegate.vela)) for delegate in artifact.delegates
        ]
        artifact = dataclasses.replace(artifact, delegates=tuple(delegates))
        plan = artifact.plan
        inputs = [
            value.from_bytes((folder / f"i{number}.bin").read_bytes())
            for number, value in enumerate(plan.values[index] for index in plan.inputs)
            if isinstance(value, Tensor)
        ]
        expected = Reference(artifact).run(inputs).outputs
        for number, (tensor, right) in enumerate(zip(plan.output_tensors, expected, strict=True)):
            data = (folder / f"out-{number}.bin").read_bytes()
            if data != tensor.to_bytes(right):
                return f"output {number}: {_describe(tensor, data, right)}"
        return ""


def compare(oracle: Oracle, folder: Path) -> tuple[bool | None, str]:
    """Return whether a device run's outputs are the expected ones, and what differs or is missing.

    The first is None when there is nothing to compare with.
    """
    try:
        difference = oracle.difference(folder)
    except (EthosHilError, OSError, ValueError) as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0]
    return not difference, difference


def _describe(tensor: Tensor, data: bytes, right: np.ndarray) -> str:
    if len(data) != tensor.nbytes:
        return f"{len(data)} bytes, expected {tensor.nbytes}"
    actual = tensor.from_bytes(data)
    with np.errstate(invalid="ignore", over="ignore"):
        largest = np.max(np.abs(actual.astype(np.float64) - right.astype(np.float64)))
    count = np.count_nonzero(actual != right)
    return f"{count} of {right.size} elements of {tensor} differ, by {largest:g} at most"


_LOG_END = 6000  # characters of a failed test's log that are kept: the FVP's command line and console are at its end
_MESSAGE_END = 2000
_ON_DEVICE = r"U[568]5|u[568]5|def test_implementation_"
_NO_FVP = "Did not find Corstone-"
"""Start of the reasons of XfailIfNoCorstone300, ..300_u65 and ..320 (executorch/backends/arm/test/common.py, 1.4.1)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `python -m ethos_hil.suites.lab upstream` uses."""
    group = parser.getgroup("upstream")
    group.addoption("--upstream-catalogue", metavar="FILE", help="write what is there to run (with --collect-only)")
    group.addoption("--upstream-items", metavar="FILE", help="run the tests listed there, in that order")
    group.addoption("--upstream-results", metavar="FILE", help="append a line per test")
    group.addoption("--upstream-build", metavar="HASH", default="", help="noted with each result")


def pytest_configure(config: pytest.Config) -> None:
    """A worker runs and observes; the process that hears all reports records; without xdist one does both."""
    if config.getoption("upstream_catalogue"):
        config.pluginmanager.register(TestLister(Path(config.getoption("upstream_catalogue"))))
    if config.getoption("upstream_items"):
        config.pluginmanager.register(Observer(config))
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(
                Recorder(Path(config.getoption("upstream_results")), config.getoption("upstream_build"))
            )


class TestLister:
    """Writes the tests for a device that pytest finds, and the files that can't be imported, with the reason."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unusable: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note the files that don't import."""
        if report.failed:
            errors = re.findall(r"^E +(.+)$", report.longreprtext, re.MULTILINE)
            self._unusable[report.nodeid] = errors[-1] if errors else report.longreprtext.strip().splitlines()[-1]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the file."""
        items = [item.nodeid for item in session.items if device_of(item.nodeid)]
        root = session.config.rootpath
        unusable = {
            file: {"reason": reason, "on_device": bool(re.search(_ON_DEVICE, (root / file).read_text()))}
            for file, reason in self._unusable.items()
        }
        self._path.write_text(json.dumps({"items": items, "unusable": unusable}, indent=1))


class Observer:
    """Runs the listed tests, and adds to each report what the device had to do with it."""

    def __init__(self, config: pytest.Config) -> None:
        self._items: list[str] = json.loads(Path(config.getoption("upstream_items")).read_text())
        self._calls: list[DeviceCall] = []
        self._oracle = Oracle()
        self._patches = ExitStack()
        if not patches_on():
            raise pytest.UsageError(f"{VARIABLE}=off: without patches the plugin does not see what reaches a device")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what is listed, in that order."""
        by_id = {item.nodeid: item for item in items}
        missing = [name for name in self._items if name not in by_id]
        if missing:
            raise pytest.UsageError(f"{len(missing)} of the listed tests do not exist, such as {missing[0]}")
        items[:] = [by_id[name] for name in self._items]
        for item in items:
            if any(map(lacks_fvp, item.iter_markers("xfail"))):
                # Such a test would be reported as an expected failure whatever the device does.
                raise pytest.UsageError(f"{item.nodeid} does not find its FVP or its runner")

    def pytest_collection_finish(self) -> None:
        """Watch the functions that start an FVP and call Vela, if upstream's tests have imported them."""
        for patches, watching in ((STARTS_OF_FVPS, self._watching), (CALLS_OF_VELA, self._oracle.watching)):
            if all(patch.owner in sys.modules for patch in patches):
                try:
                    self._patches.enter_context(apply(patches, watching))
                except EthosHilError as error:
                    raise pytest.UsageError(f"{error}; {error.hint}") from error

    def pytest_sessionfinish(self) -> None:
        """Leave upstream as it was."""
        self._patches.close()

    def _watching(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def watched(command: list[str], *args: Any, **kwargs: Any) -> Any:
            if not command[0].startswith("FVP_"):
                return run(command, *args, **kwargs)
            (folder,) = (Path(word.partition("=")[2]) for word in command if ".semihosting-cwd=" in word)
            status, start = None, time.perf_counter()
            try:
                result = run(command, *args, **kwargs)
                status = result.returncode
            finally:
                seconds = round(time.perf_counter() - start, 3)
                equal, note = compare(self._oracle, folder) if status == 0 else (None, "the FVP failed")
                self._calls.append(DeviceCall(command[0], seconds, status, equal, note))
            return result

        return watched

    def pytest_runtest_logstart(self) -> None:
        """Forget the calls of the test before. The hook for the setup is too late for a test that is skipped."""
        self._calls = []
        self._oracle.forget()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        """Apply the patches that only save time: they do not change what a test lowers."""
        with apply(SPEED) if "torch" in sys.modules else nullcontext():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach calls and exception; pytest carries the properties of a report across processes."""
        report = yield
        raised = call.excinfo.type if call.excinfo else None
        facts = {
            "calls": [dataclasses.astuple(entry) for entry in self._calls],
            "message": f"{raised.__name__}: {call.excinfo.value}"[:_MESSAGE_END] if raised and call.excinfo else "",
        }
        report.user_properties.append(("upstream", facts))
        return report


def lacks_fvp(xfail: pytest.Mark) -> bool:
    """Return whether a mark expects a failure because there is no FVP or no runner."""
    conditions = (xfail.kwargs["condition"],) if "condition" in xfail.kwargs else xfail.args
    return any(conditions) and str(xfail.kwargs.get("reason")).startswith(_NO_FVP)


def outcome_of(report: pytest.TestReport) -> Outcome:
    """Return the outcome that a phase's report stands for: pytest folds six outcomes into three and an attribute."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed" if report.passed else "failed"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    return "skipped" if report.skipped else "passed"


class Recorder:
    """Appends a line per test."""

    def __init__(self, path: Path, build: str) -> None:
        self._path, self._build = path, build
        self._reports: dict[str, list[pytest.TestReport]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the report of one phase; that of a crashed worker is the only one of its test."""
        self._reports.setdefault(report.nodeid, []).append(report)
        if report.when not in ("setup", "call"):
            append(self._path, result_of(report.nodeid, self._reports.pop(report.nodeid), self._build))


def result_of(item: str, reports: list[pytest.TestReport], build: str) -> TestResult:
    """Fold the reports of a test's phases; the first phase that did not simply pass decides."""
    decisive = next((report for report in reports if outcome_of(report) != "passed"), reports[-1])
    facts = _facts(decisive)
    failed = outcome_of(decisive) in ("failed", "error")
    calls = max((_facts(report).get("calls", []) for report in reports), key=len)
    return TestResult(
        id=item,
        npu=device_of(item) or "",
        outcome=outcome_of(decisive),
        seconds=round(sum(report.duration for report in reports), 3),
        build=build,
        calls=tuple(DeviceCall(*call) for call in calls),
        message=facts.get("message")
        or (_last_line(decisive.longreprtext) if failed else str(getattr(decisive, "wasxfail", ""))),
        log=decisive.caplog[-_LOG_END:] if failed else "",
    )


def _facts(report: pytest.TestReport) -> dict[str, Any]:
    """Return what the observer added to a report; nothing if its process crashed."""
    return next((facts for name, facts in report.user_properties if name == "upstream" and isinstance(facts, dict)), {})


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
