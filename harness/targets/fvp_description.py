"""What an FVP says of itself, its version and its parameters, and what it says when it does not run.

Each file is asked once. Why an FVP does not run its words tell, its exit status does not.

Sources of the words:

- glibc's dynamic linker.
- Licences: FlexNet, which licenses Arm's tools, as public bug reports of tools that use it quote it ("License path:",
  "FlexNet Licensing error:-5,357"); Arm Compiler's messages, likewise ("Failed to check out a license", "The license
  file could not be found"); gem5's notes on Fast Models ("license error: License checkout for feature FM_Simulator
  with version 11.15 has been denied by Flex back-end"). No FVP without its licence was at hand.
- The end at a limit, "Info: Simulation is stopping. Reason: ... has been exceeded.", with "CPU time" after --timelimit
  (ExecuTorch's backends/arm/scripts/run_fvp.sh and documents), "Simulated time" after --simlimit (logs of the
  Corstone-300 in Zephyr's and Arm's documents) and "Cycle limit" after --cyclelimit (ARM-software/AVH and MDK-Packs).
  No public log shows a wall clock's; any reason with "time" or "limit" in it counts.
- A value that a parameter cannot have: "parameter error: value is out of range", or "FATAL ERROR: The number of MACs
  parameter value ... is not valid!" (Kwon-GiHwan/mps4_prototyping_board, docs/paper/platform_sensitivity/
  FVP_PARAMETER_AUTHORITY.md). An FVP that ends before its first frame is quoted, so these need no words of ours.
- What says nothing about a failure: "telnetterminal0: Listening for serial connection on port 5000", with "Info:" and
  the FVP's name before it in later releases (Arm's csolution examples); the NPU's three lines "Ethos-U rev ... ---
  ..."; "WARNING: ISAR5.PACBTI parameter is deprecated, ..." (FreeRTOS partner demos); "Warning: Failed to write bytes
  at address range ..." (audiomark); "Xt error: Can't open display" of terminals. They are lines like others.

Fast Models collect usage data (rust-embedded/cortex-m, issue 358); no public log shows a line about that.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.plain_text import ending
from ethos_hil.base.process import start_child
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.console_text import ConsoleText
from ethos_hil.harness.targets.executor_runner import TELLING
from ethos_hil.harness.targets.fvp_parameters import FvpListing

_GRACE_SECONDS = 1.0
"""Between asking a simulator to end and killing it. It may hold a licence that it should give back."""
_REAP_SECONDS = 5.0
_POLL_SECONDS = 0.005


def _unheard(data: bytes) -> None:
    """Do nothing with what a simulator writes."""


class Simulation:
    """One run of a simulator. A context manager: leaving it leaves no process behind.

    Attributes:
        command: its command line.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        hear: Callable[[bytes], object] = _unheard,
    ) -> None:
        """Start a simulator.

        Args:
            command: its command line.
            folder: where it runs.
            hear: gets all that it writes, in pieces; `lines` may be shortened.

        Raises:
            TargetNotAvailable: it can't be started.
        """
        self.command = tuple(command)
        self._console_text = ConsoleText(TELLING)
        self._hear = hear
        try:
            self._process = start_child(command, cwd=folder)
        except OSError as error:
            raise TargetNotAvailable(
                f"{command[0]} could not be started: {error.strerror}",
                hint="is it a program for this machine, with permission to execute it?",
            ) from error
        assert self._process.stdout is not None
        self._console: int | None = self._process.stdout.fileno()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def lines(self) -> list[str]:
        """Return the lines of its stdout and stderr so far (ConsoleText says which are kept)."""
        return list(self._console_text.lines())

    @property
    def status(self) -> int | None:
        """Return the exit status (negative: the signal that ended it), or None while it runs."""
        # It is left unreaped until `stop`, which still needs its number: no one else can have it until then.
        if self._process.returncode is not None:
            return self._process.returncode
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def watch(self, seconds: float) -> bool:
        """Read its console for at most `seconds`. Return whether it still runs; after False, everything was read."""
        if self._console is None:
            end = time.monotonic() + seconds
            while self.status is None and time.monotonic() < end:
                time.sleep(min(_POLL_SECONDS, seconds))
            return self.status is None
        running = self.status is None  # before reading: what it wrote before it ended is there to be read then
        if select.select([self._console], [], [], seconds if running else 0.0)[0]:
            data = os.read(self._console, 1 << 16)
            self._console_text.write(data)
            self._hear(data)
            if data:
                return True
        elif running:
            return True
        # Closed by the simulator; or it has ended, and a process it left behind holds the other end.
        self._close_console()
        return self.status is None

    def stop(self) -> None:
        """End it and all that it started, and reap it. May be called again."""
        if self._process.returncode is not None:
            return
        if self.status is None:
            self._signal(signal.SIGTERM)
            end = time.monotonic() + _GRACE_SECONDS
            while time.monotonic() < end and self.watch(max(0.0, end - time.monotonic())):
                pass
        self._signal(signal.SIGKILL)
        self._process.wait(_REAP_SECONDS)
        self._close_console()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _close_console(self) -> None:
        if self._console is None:
            return
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._console = None


CONSOLE_LINES = 5
"""Lines of a console that a message quotes."""
_TIME_LIMIT = re.compile(r"simulation is stopping\.\s+reason:.*\b(?:time|limit)\b.*\bexceeded", re.IGNORECASE)
_LIBRARY = re.compile(r"error while loading shared libraries: ([^:]+):")
_LICENCE = re.compile(
    "|".join(
        (
            r"flex(?:net|lm) licensing (?:checkout )?error",
            r"license path:",
            r"licen[sc]e error:",
            r"denied by flex back-end",
            r"failed to check ?out (?:a |the )?licen[sc]e",
            r"licen[sc]e check ?(?:out )?failed",
            r"(?:no valid|invalid|expired) licen[sc]e",
            r"no licen[sc]e (?:was )?found",
            r"licen[sc]e (?:has )?expired",
            r"licen[sc]e file could not be found",
            r"cannot connect to license server",
            r"does not enable these tools",
        )
    ),
    re.IGNORECASE,
)


def complaint(lines: Sequence[str]) -> TargetNotAvailable | None:
    """Return why the FVP did not start, or None where its lines do not say.

    The error names the missing library (kind "not-launched") or quotes the licence message (kind "licence").
    """
    for line in lines:
        library = _LIBRARY.search(line)
        if library is not None:
            return TargetNotAvailable(
                f"the FVP lacks the shared library {library[1].strip()}",
                hint="set LD_LIBRARY_PATH to the folders python/lib and fmtplib of its installation, and PYTHONHOME to "
                "its folder python",
            )
    for line in lines:
        if _LICENCE.search(line):
            return TargetNotAvailable(
                f"the FVP has no licence: {line.strip()}",
                kind=FailureKind.LICENCE,
                hint="set ARMLMD_LICENSE_FILE to your licence, or use Arm's FVPs that need none, or --target virtual",
            )
    return None


def has_reached_time_limit(lines: Sequence[str]) -> bool:
    """Return whether the FVP ended at a limit of its own."""
    return any(_TIME_LIMIT.search(line) for line in lines)


def quote(lines: Sequence[str]) -> str:
    """Return the last lines in one, for a message."""
    return " | ".join(lines[-CONSOLE_LINES:]) or "nothing"


def last_words(lines: Sequence[str]) -> str:
    """Return the last lines that are not empty, for a hint."""
    words = [line for line in lines if line.strip()]
    return f"the console's last lines: {quote(words)}" if words else "the console is empty"


_VERSION_SECONDS = 60.0
_LISTING_SECONDS = 20.0
"""An FVP that takes longer to list its parameters is used without its list."""
_MOST_LISTING = 16 << 20
"""Bytes of a list that are read: ten times more than that of any FVP."""


@dataclass(frozen=True)
class FvpDescription:
    """What an FVP says of itself.

    Attributes:
        version: the text of its `--version`.
        listing: the parameters of its `--list-params`.
        listed: the text of that, as it came.
    """

    version: str
    listing: FvpListing
    listed: str

    @property
    def name(self) -> str:
        """Return the first line of its version."""
        return self.version.splitlines()[0]


def describe(executable: Path, tell: Callable[[str], None] | None = None) -> FvpDescription:
    """Ask an FVP for its version and its parameters.

    Args:
        executable: its path.
        tell: gets what is being done, before it takes time.

    Raises:
        TargetNotAvailable: it does not start; kind "licence" if it lacks one. That it does not list its parameters is
            not an error.
    """
    question = executable, executable.stat().st_mtime_ns
    if tell is not None and question not in _asked:
        tell(f"Asking {executable.name} for its version and parameters")
    _asked.add(question)
    return FvpDescription(_version_text(*question), *_listing(*question))


_asked: set[tuple[Path, int]] = set()


@functools.lru_cache(maxsize=16)
def _version_text(executable: Path, changed: int) -> str:
    status, lines, _ = _answer(executable, "--version", _VERSION_SECONDS)
    if status is None:
        raise TargetNotAvailable(f"{executable.name} --version did not end within {_VERSION_SECONDS:g} s")
    trouble = complaint(lines) if status else None
    if trouble is not None:
        raise trouble
    # An FVP that refuses to tell its version may still run; one that says nothing, or crashes, does not.
    if status < 0 or not lines:
        raise TargetNotAvailable(f"{executable} --version {ending(status)} and said {quote(lines)}")
    return "\n".join(lines)


@functools.lru_cache(maxsize=16)
def _listing(executable: Path, changed: int) -> tuple[FvpListing, str]:
    status, lines, text = _answer(executable, "--list-params", _LISTING_SECONDS)
    listing = FvpListing.parse(text)
    if status is None:
        lacking = f"it did not end within {_LISTING_SECONDS:g} s"
    elif status:
        lacking = f"it {ending(status)} and said {quote(lines)}"
    else:
        lacking = "" if listing.known else f"it said {quote(lines)}"
    return (FvpListing(frozenset(), lacking) if lacking else listing), text


def _answer(executable: Path, option: str, seconds: float) -> tuple[int | None, list[str], str]:
    """Return exit status (None: it did not end), lines without empty ones, and the whole text."""
    deadline = Deadline(seconds)
    heard = bytearray()
    with Simulation([str(executable), option], executable.parent, hear=heard.extend) as simulation:
        while simulation.watch(deadline.remaining) and not deadline.passed and len(heard) < _MOST_LISTING:
            pass
        status, lines = simulation.status, [line.strip() for line in simulation.lines if line.strip()]
    return status, lines, heard.decode("utf-8", "replace")
