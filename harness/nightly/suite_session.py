"""One session of pytest for a part of a nightly's plan, in a process of its own that dies with this one."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.errors import ToolError
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.process import end_child, start_child
from ethos_hil.base.regular_file import read_text
from ethos_hil.harness.nightly.night import SESSIONS
from ethos_hil.harness.nightly.plan import SuitePart

_TICK = 1.0
_END = 30.0
"""Seconds that an interrupted session has to stop its boards."""
_MOST_LOG = 64 << 20


@dataclass(frozen=True)
class SessionExit:
    """How the process of a session ended.

    Attributes:
        status: pytest's exit status; negative for a signal.
        log: what it said.
        last: the line of it that says most about why it ended.
    """

    status: int
    log: Path
    last: str


@dataclass(frozen=True)
class SuiteSession:
    """A session that is to run.

    Attributes:
        part: what to run.
        run_folder: where its records go.
        folder: the working directory.
        jobs: processes.
        shard: "2/4", or "".
        number: of the part in the plan; names its files.
        attempt: see `RunInfo`.
        name: the part's name in records.
        tests: pytest's ids in place of the paths; None for all.
    """

    part: SuitePart
    run_folder: Path
    folder: Path
    jobs: int
    shard: str
    number: int
    name: str
    attempt: int = 1
    tests: Sequence[str] | None = None

    def run(self, tick: Callable[[], None]) -> SessionExit:
        """Run it to its end.

        Args:
            tick: called every second.

        Raises:
            OSError: a file cannot be written.
        """
        base = self.run_folder / SESSIONS / self._file_name
        log = base.with_suffix(".log")
        base.parent.mkdir(exist_ok=True)
        status = self._status(self._command(base), log, tick)
        said = read_text(log, most=_MOST_LOG) if log.stat().st_size < _MOST_LOG else ""
        return SessionExit(status, log, _reason(said))

    @property
    def _file_name(self) -> str:
        again = f"-{self.attempt}" if self.attempt > 1 else "-audit" if self.name != self.part.name else ""
        return f"{self.number:02}{again}"

    def _command(self, base: Path) -> list[str]:
        part = self.part
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *part.arguments]
        command += ["-n", str(self.jobs), "--dist", "worksteal"]  # one, too: a test may kill its process
        command += [f"--runs={self.run_folder.parent}", f"--run-name={self.run_folder.name}", "--resume"]
        command += [f"--run-part={self.name}", f"--run-attempt={self.attempt}"]
        command += [f"--artifacts={self.run_folder / 'failures'}"]
        command += [f"--shard={self.shard}"] if self.shard else []
        if self.tests is None:
            return [*command, *part.selection, "--", *part.entry.paths]
        arguments = base.with_suffix(".txt")
        arguments.write_text("".join(f"{each}\n" for each in self.tests))
        return [*command, f"@{arguments}"]

    def _status(self, command: Sequence[str], log: Path, tick: Callable[[], None]) -> int:
        with log.open("wb") as said:
            process = start_child(command, cwd=self.folder, stdout=said)
        try:
            while True:
                try:
                    return process.wait(_TICK)
                except subprocess.TimeoutExpired:
                    tick()
        except BaseException:
            process.terminate()
            end_child(process, _END)
            raise


def check_pytest() -> None:
    """Check that pytest can be started.

    Raises:
        ToolError: it is not installed.
    """
    for name, package in (("pytest", "pytest"), ("xdist", "pytest-xdist")):
        if importlib.util.find_spec(name) is None:
            raise ToolError(f"suites need {package}, which is not installed", hint=f"pip install {package}")


def _reason(said: str) -> str:
    """Return the line of pytest's that says most about why it ended."""
    lines = [line for line in said.splitlines() if line.strip()]
    usage_errors = [line for line in lines if re.match(r"\S.*: error: ", line)]
    told = usage_errors or [line for line in lines if re.match(r"(ERROR|E  |INTERNALERROR>.*Error)", line)]
    return one_line((told or lines or ["it said nothing"])[0 if told else -1])[:500]
