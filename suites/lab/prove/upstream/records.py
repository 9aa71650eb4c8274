"""Results of upstream's tests, a line each; which failures are diagnosed; and samples of tests.

The sample that the tests run (sample.txt) was drawn among the quicker half of the tests that reached the device and
passed in a full run: they have minutes, and what takes long is mostly the same operator on a larger tensor.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import tomllib
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError

Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
FAILURES: tuple[Outcome, ...] = ("failed", "error")


CORTEX_M = "m55"


def device_of(item: str) -> str | None:
    """Return what a test is for, from its name; None for what is on no device.

    Returns:
        The NPU (test_add_tensor_u55_INT[..]), or CORTEX_M for a Cortex-M55 alone (test_implementation_add[..],
        test_portable_int8_ops_fvp[..] in backends/cortex_m/test, executorch 1.5.1).
    """
    name = item.partition("::")[2]
    if re.match(r"test_(implementation_\w+|\w+_fvp)(\[|$)", name):
        return CORTEX_M
    match = re.search(r"(?<![a-z0-9])u(?:55|65|85)(?![0-9])", name, re.IGNORECASE)
    return match.group().lower() if match else None


@dataclass(frozen=True)
class DeviceCall:
    """One start of an FVP by a test."""

    fvp: str
    seconds: float
    status: int | None  # its exit status; None: it could not be started, or its status was not 0 and upstream raised
    equal: bool | None = None  # were all outputs bit for bit the reference's? None: there was nothing to compare
    note: str = ""  # what differed, or why nothing was compared


@dataclass(frozen=True)
class TestResult:
    """The result of one test."""

    __test__ = False  # pytest takes a class called Test... for one of tests

    id: str  # file::test[parameters], the file relative to executorch/backends/arm/test, or of cortex_m to backends
    npu: str  # or CORTEX_M
    outcome: Outcome
    seconds: float
    build: str  # of what it ran on: see setting.py
    calls: tuple[DeviceCall, ...] = ()
    message: str = ""  # what it raised; for one that passed unexpectedly, the reason to expect that it fails
    log: str = ""  # end of the captured log of a test that failed: FVP command line and console

    @property
    def file(self) -> str:
        """The test file."""
        return self.id.partition("::")[0]

    @property
    def failed(self) -> bool:
        """Whether it failed, in a phase or by passing against a strict xfail mark."""
        return self.outcome in FAILURES

    @property
    def differing(self) -> DeviceCall | None:
        """The first device run whose outputs differ from the reference's."""
        return next((call for call in self.calls if call.equal is False), None)

    @property
    def wrong(self) -> bool:
        """Whether it failed, or passed with other outputs than the reference's."""
        return self.failed or self.differing is not None

    @property
    def problem(self) -> str:
        """What is wrong with it, in a line."""
        differs = f"differs from the reference: {self.differing.note}" if self.differing else ""
        return "; ".join(text for text in (gist(self.message) if self.failed else "", differs) if text)

    def to_line(self) -> str:
        """Return the line of the results file."""
        return json.dumps(dataclasses.asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> TestResult:
        """Read a line of the results file. Fields that earlier builds wrote besides are left out."""
        data = json.loads(line)
        data["calls"] = tuple(DeviceCall(**call) for call in data["calls"])
        return cls(**{field.name: data[field.name] for field in dataclasses.fields(cls)})


def gist(message: str) -> str:
    """Return the line that explains what a test raised: for an FVP's call what it printed, not its command."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) > 1 and "Failed running command" in lines[0]:
        lines = [line for line in lines[1:] if line not in ("Stderr:", "Stdout:")] or lines
        return next((line for line in lines if re.match(r"(Stdout: |Stderr: )?[EF] ", line)), lines[0])
    if len(lines) > 1 and "Corstone simulation failed" in lines[0]:
        return lines[1]
    return lines[0] if lines else ""


def read(path: Path) -> dict[str, TestResult]:
    """Return the last result of each test in a results file. A line that an interrupt cut off does not count."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {result.id: result for result in (TestResult.from_line(line) for line in lines if line.endswith("}"))}


def append(path: Path, result: TestResult) -> None:
    """Append a result, on a line of its own even after one that was cut off."""
    with path.open("a+b") as file:
        if file.tell() and not _ends_line(file):
            file.write(b"\n")
        file.write(result.to_line().encode())


def _ends_line(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


KNOWN = Path(__file__).with_name("known.toml")
Diagnosis = Literal["ours", "upstream", "fvp-difference"]


@dataclass(frozen=True)
class Known:
    """A diagnosed failure."""

    test: str  # a test's id; * stands for any characters
    diagnosis: Diagnosis
    evidence: str

    def covers(self, item: str) -> bool:
        """Return whether the entry is about a test."""
        return re.fullmatch(".*".join(map(re.escape, self.test.split("*"))), item) is not None


def load(path: Path = KNOWN) -> tuple[Known, ...]:
    """Read the list. Raise UsageError when an entry lacks a field or has an unknown one."""
    entries = tomllib.loads(path.read_text()).get("known", [])
    for entry in entries:
        wrong = entry.keys() ^ {"test", "diagnosis", "evidence"} or entry["diagnosis"] not in get_args(Diagnosis)
        if wrong or not entry["evidence"].strip():
            raise UsageError(f"{path}: entry {entry.get('test', entry)} needs test, diagnosis and evidence")
    return tuple(Known(**entry) for entry in entries)


def diagnosis_of(result: TestResult, known: Iterable[Known]) -> Known | None:
    """Return the entry that explains what is wrong with a test."""
    return next((entry for entry in known if entry.covers(result.id)), None)


def stale(results: Iterable[TestResult], known: Iterable[Known]) -> list[Known]:
    """Return the entries whose tests were run and are not wrong any more."""
    ran = list(results)
    covered = {entry: [result for result in ran if entry.covers(result.id)] for entry in known}
    return [entry for entry, tests in covered.items() if tests and not any(test.wrong for test in tests)]


def spread(items: Iterable[str], size: int, seed: int) -> list[str]:
    """Draw `size` tests, or all if there are fewer: one of each file and device before a second of any."""
    randomly = random.Random(seed)
    groups: dict[tuple[str, str | None], list[str]] = {}
    for item in sorted(items):
        groups.setdefault((item.partition("::")[0], device_of(item)), []).append(item)
    names = sorted(groups, key=str)
    randomly.shuffle(names)
    for group in groups.values():
        randomly.shuffle(group)
    rounds = zip_longest(*(groups[name] for name in names))
    chosen = [item for row in rounds for item in row if item is not None][:size]
    randomly.shuffle(chosen)
    return chosen
