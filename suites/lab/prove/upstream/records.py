"""Results of upstream's tests, one JSON object a line, appended as each test ends."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ethos_hil.suites.lab.prove.upstream.rule import Outcome

NPUS = ("u55", "u65", "u85")
FAILURES: tuple[Outcome, ...] = ("failed", "error")


def npu_of(item: str) -> str | None:
    """Return the NPU of a test from its name (test_add_tensor_u55_INT[..]); None for other backends."""
    match = re.search(r"(?<![a-z0-9])u(?:55|65|85)(?![0-9])", item.partition("::")[2], re.IGNORECASE)
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

    id: str  # file::test[parameters], the file relative to executorch/backends/arm/test
    npu: str
    outcome: Outcome
    seconds: float
    build: str  # of what it ran on: see setting.py
    without: Outcome  # what it would report without FVPs: see rule.py
    calls: tuple[DeviceCall, ...] = ()
    message: str = ""  # what it raised; for one that passed unexpectedly, the reason to expect that it fails
    log: str = ""  # end of the captured log of a test that failed: FVP command line and console
    warnings: tuple[str, ...] = ()

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
        """Read a line of the results file."""
        fields = json.loads(line)
        fields["calls"] = tuple(DeviceCall(**call) for call in fields["calls"])
        fields["warnings"] = tuple(fields["warnings"])
        return cls(**fields)


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
