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

The parameters of an FVP: which it has, as its `--list-params` prints them, and which it is run with, and for what.

An FVP refuses a command line with a parameter that it does not have, and releases differ. So it is asked for its list,
and only what it has is set. docs/targets.md shows the table; `Fvp.settings` and `Fvp.runner_settings` of harness/socs
add what only one FVP has.

Sources of the parameters: ExecuTorch's backends/arm/test/runner_utils.py and backends/arm/scripts/run_fvp.sh (all names
but these); Arm's ml-embedded-evaluation-kit (`unbuffered_output` on a Corstone-300). `untimed_fifos` is known of other
FVPs, whose UART is a PL011 (Trusted Firmware-A's user guide). The terminals of both boards are 0, 1, 2 and 5 (public
logs of all Corstones).

Sources of the list's form: lists that Arm's own documents quote, in full lines, for FVPs of the Corstone-300
(ARM-software/AVH, DoxyGen/simulation/src/using.md; MDK-Packs' READMEs, one of them with "cpu_core." before every name),
for an RTSM on Windows (tianocore's ArmPlatformPkg notes: strings in quotes) and for FVP_Base (a blog's of 2025). Lines
of real lists of six Corstones, of Fast Models 11.22.35 to 11.31.28, are in Kwon-GiHwan/mps4_prototyping_board
(docs/paper/platform_sensitivity/probe_raw/fvp_inventory.json): strings have no quotes there, and each list has 1,730 to
1,877 lines.
All have a heading of lines that start with "#", and a line for each parameter:

    instance.parameter=value       # (type  , init-time) default = 'value' : description : [min..max]

None was seen in full.
"""

from __future__ import annotations

import contextlib
import difflib
import enum
import functools
import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.process import Deadline, start_child
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import ConsoleText
from ethos_hil.harness.socs.soc import Fvp
from ethos_hil.harness.targets.executor_runner import TELLING

_NEAR = 3
_LINE = re.compile(
    r"""
    \s* (?: -C \s+ )?
    (?P<name> [A-Za-z_][\w\-\[\]]* (?: \. [\w\-\[\]]+ )+ )  # instances and the parameter: at least one dot
    \s* (?: = .* | \# .* )                                  # a value, and what it is, or one of the two
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class FvpListing:
    """The parameters that an FVP has.

    Attributes:
        names: their full names; none where the FVP did not list them.
        lacking: why it did not, in words, or "".
    """

    names: frozenset[str]
    lacking: str = ""

    @classmethod
    def parse(cls, text: str) -> FvpListing:
        """Read what `--list-params` printed. Lines that name no parameter are left out."""
        matches = (_LINE.fullmatch(line.strip()) for line in text.splitlines())
        return cls(frozenset(line["name"] for line in matches if line is not None))

    @property
    def known(self) -> bool:
        """Whether the FVP listed its parameters."""
        return bool(self.names)

    def matching(self, pattern: str) -> tuple[str, ...]:
        """Return the parameters of this name, in which each `#` stands for a number.

        An FVP may have further instances before all its names. So a name that ends in this one counts too, but only
        where none is equal to it.
        """
        number = re.escape(pattern).replace(re.escape("#"), "[0-9]+")
        equal = sorted(name for name in self.names if re.fullmatch(number, name))
        return tuple(equal or sorted(name for name in self.names if re.fullmatch(rf".+\.{number}", name)))

    def near(self, name: str) -> list[str]:
        """Return the names that `name` may have been: the same parameter of other instances first."""
        last = name.rpartition(".")[2]
        same = sorted(other for other in self.names if other.rpartition(".")[2] == last)
        alike = difflib.get_close_matches(name, sorted(self.names), _NEAR)
        return list(dict.fromkeys([*same, *alike]))[:_NEAR]


class Use(enum.Enum):
    """What a parameter is set for."""

    EVERY_RUN = "every run"
    FAST = "`--fast`"
    FIRMWARE = "our firmware"
    RUNNER = "`--runner`"


class Need(enum.Enum):
    """What is done where an FVP lacks a parameter, or does not list what it has."""

    NEEDED = "needed"
    """Lacking: the FVP cannot be used. Not listed: it is set."""
    USUAL = "usual"
    """Lacking: left out, and a note says so. Not listed: it is set."""
    EXTRA = "where there is one"
    """Lacking or not listed: left out."""


@dataclass(frozen=True)
class FvpParameter:
    """A row of the table.

    Attributes:
        pattern: its name; `{cpu}`, `{npu}` and `{board}` stand for the FVP's instance paths, `#` for every number.
        value: what it is set to; `{macs}`, `{uart}`, `{folder}` and `{command_line}` stand for values of the run.
        use: what it is set for.
        need: what is done where an FVP lacks it.
        why: why it is set, in a few words.
    """

    pattern: str
    value: str
    use: Use
    need: Need
    why: str

    def name(self, fvp: Fvp) -> str:
        """Return its name on `fvp`, with `#` kept."""
        return self.pattern.format(cpu=fvp.cpu_path, npu=fvp.npu_path, board=fvp.board_path)


_NEEDED, _USUAL, _EXTRA = Need.NEEDED, Need.USUAL, Need.EXTRA

PARAMETERS = (
    FvpParameter("{npu}.num_macs", "{macs}", Use.EVERY_RUN, _NEEDED, "from `--npu`"),
    FvpParameter("{board}.visualisation.disable-visualisation", "1", Use.EVERY_RUN, _USUAL, "no window"),
    FvpParameter("{board}.telnetterminal0.start_telnet", "0", Use.EVERY_RUN, _USUAL, "no terminal window"),
    FvpParameter("{board}.telnetterminal#.start_telnet", "0", Use.EVERY_RUN, _EXTRA, "nor any other"),
    FvpParameter("{npu}.extra_args", "'--fast'", Use.FAST, _NEEDED, "without it the NPU keeps time"),
    FvpParameter(
        "{board}.uart0.out_file", "{uart}", Use.FIRMWARE, _NEEDED,
        "a file in a private folder: stdout is the FVP's own, and its words would be among the frames",
    ),
    FvpParameter("{board}.uart0.unbuffered_output", "1", Use.FIRMWARE, _USUAL, "frames are read while they come"),
    FvpParameter("{board}.uart0.untimed_fifos", "1", Use.FIRMWARE, _EXTRA, "no baud rate to wait for"),
    FvpParameter("{board}.uart0.out_file", "'-'", Use.RUNNER, _NEEDED, "to stdout"),
    FvpParameter("{cpu}.semihosting-enable", "1", Use.RUNNER, _NEEDED, "what a runner talks by"),
    FvpParameter("{cpu}.semihosting-stack_base", "0", Use.RUNNER, _NEEDED, "the program places its stack"),
    FvpParameter("{cpu}.semihosting-heap_limit", "0", Use.RUNNER, _NEEDED, "and its heap"),
    FvpParameter("{cpu}.semihosting-cwd", "{folder}", Use.RUNNER, _NEEDED, "the folder with its files"),
    FvpParameter("{cpu}.semihosting-cmd_line", "'{command_line}'", Use.RUNNER, _NEEDED, "its arguments"),
)  # fmt: skip
"""In the order of the command line."""


@dataclass(frozen=True)
class FvpSettings:
    """The parameters of a run.

    Attributes:
        values: by the name that the FVP has for each, in the order of the command line.
        lacking: usual ones that it does not have.
        renamed: those that it has under another name: that, and the usual one.
    """

    values: dict[str, str]
    lacking: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def then(self, other: FvpSettings) -> FvpSettings:
        """Return these and others."""
        return FvpSettings(self.values | other.values, self.lacking + other.lacking, (*self.renamed, *other.renamed))

    def notes(self, fvp: Fvp) -> tuple[str, ...]:
        """Return what is unusual about them, a sentence each."""
        notes = []
        if self.lacking:
            notes.append(f"{fvp.executable} has no {', no '.join(self.lacking)}: not set")
        if self.renamed:
            (name, usual), others = self.renamed[0], len(self.renamed) - 1
            more = f", and {others} more such" if others else ""
            notes.append(f"{fvp.executable} has other names for parameters: {name} for {usual}{more}")
        return tuple(notes)


def settings(fvp: Fvp, version: str, listing: FvpListing, use: Use, values: Mapping[str, str]) -> FvpSettings:
    """Return what to set for one use.

    Args:
        fvp: the FVP.
        version: what it says of itself, for messages.
        listing: the parameters that it has.
        use: for what.
        values: of the run, by the placeholders that its rows have.

    Raises:
        TargetNotAvailable: the FVP lacks one that is needed; names it, the FVP, and names like it.
    """
    chosen: dict[str, str] = {}
    lacking: list[str] = []
    renamed: list[tuple[str, str]] = []
    for wanted, value, need in _rows(fvp, use, values):
        names = listing.matching(wanted) if listing.known else ()
        if not listing.known and need is not Need.EXTRA:
            names = (wanted,)
        if need is Need.EXTRA:
            chosen |= {name: value for name in names if name not in chosen}
        elif len(names) == 1:
            chosen[names[0]] = value
            renamed += [(names[0], wanted)] if names[0] != wanted else []
        elif need is Need.NEEDED:
            raise _missing(fvp, version, listing, wanted, names)
        else:
            lacking.append(wanted)
    return FvpSettings(chosen, tuple(lacking), tuple(renamed))


def _rows(fvp: Fvp, use: Use, values: Mapping[str, str]) -> Iterator[tuple[str, str, Need]]:
    """Yield name, value and need of each parameter for a use."""
    for row in PARAMETERS:
        if row.use is use:
            yield row.name(fvp), row.value.format_map(values), row.need
    own = {Use.EVERY_RUN: fvp.settings, Use.RUNNER: fvp.runner_settings}.get(use, ())
    for name, value in own:
        yield name, value, Need.USUAL


def _missing(fvp: Fvp, version: str, listing: FvpListing, name: str, candidates: tuple[str, ...]) -> TargetNotAvailable:
    near = candidates or tuple(listing.near(name))
    return TargetNotAvailable(
        f"{fvp.executable} ({version}) has no parameter {name}, which a run needs",
        hint=(f"it has {', '.join(near)}; " if near else "") + "is it the FVP of this Corstone? "
        f"`{fvp.executable} --list-params` lists what it has",
    )


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

    def __init__(self, command: Sequence[str], folder: Path, hear: Callable[[bytes], object] = _unheard) -> None:
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


def ending(status: int) -> str:
    """Return how a process ended, in words; `status` is negative for a signal."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


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
