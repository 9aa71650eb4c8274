"""A board on the bench as a target: the firmware stays on it, and takes one package after another from its serial line.

The probe is needed only when another firmware is on the board, or none, or one that hangs. So a run that finds its
firmware there touches nothing but the line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import time
from collections.abc import Iterator, Mapping

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import EthosHilError, TargetError, TargetNotAvailable, ToolError
from ethos_hil.base.record import BoardRun
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board, Quirk, Server
from ethos_hil.harness.boards.gdb_server import board_remote
from ethos_hil.harness.boards.lease import lease, set_aside, take_back
from ethos_hil.harness.boards.loadable import ResidentFirmware
from ethos_hil.harness.boards.loader import load, start
from ethos_hil.harness.boards.monitor import Monitor, MonitorLink, Uploaded
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.image.pack import Clocks, Image
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.outcome import Outcome, Progress
from ethos_hil.harness.targets.base import Capability, Target, silence

FAMILY = "board"
_THERE_SECONDS = 2.5
"""For a firmware that is there to answer. After some bytes at the wrong speed it goes back to its first one."""
_STARTED_SECONDS = 5.0
"""For a firmware that was just started, with power and clocks to set up."""
_PROBE_SECONDS = 10.0
"""For a probe's server to answer a question."""
_ANSWER_SECONDS = 0.5
"""Between two looks at the line."""
_TELL_SECONDS = 1.0
_POWER_SECONDS = 60.0
_RETRIED = (FailureKind.PROBE, FailureKind.READBACK, FailureKind.LOST_BOARD)
"""What a power cycle may cure."""

_speeds: dict[str, int] = {}
"""The speed that each serial port had last in this process: the firmware has it still."""


class BoardTarget(Target):
    """A board that a board file describes.

    Attributes:
        board: what is known of it.
        patience: seconds that a run waits for another process that uses the board; None: until its own time is up.
    """

    kind = "board"

    def __init__(self, board: Board, npu: str) -> None:
        """Make the target.

        Args:
            board: from the catalogue.
            npu: name of the NPU's configuration in it.
        """
        self.board = self._board = board
        self.patience: float | None = None
        self.name = f"{FAMILY}:{board.name}"
        self.soc = board.soc.name
        self.npu = npu
        self.cycle_provenance = "modelled" if board.simulated else "measured"
        self.cpu_unit = "instructions" if board.simulated else "cycles"
        self.version = board.loading.serial
        self._told = 0.0
        self._running = contextlib.ExitStack()

    def capabilities(self) -> frozenset[Capability]:
        """Return that it counts the NPU's cycles."""
        return frozenset({Capability.NPU_CYCLES})

    def _load(self, image: Image) -> None:
        lacking = missing(self._board)
        if lacking is not None:
            raise lacking
        ResidentFirmware.of(image.elf)

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        try:
            outcome = self._run_once(image, timeout, progress)
        except EthosHilError as error:
            set_aside(self._board, error)
            raise
        take_back(self._board)
        return outcome

    def _run_once(self, image: Image, timeout: float, progress: Progress | None) -> Outcome:
        started = time.perf_counter()
        seconds: dict[str, float] = {}
        collector = Collector(image, progress)
        deadline = Deadline(timeout)
        try:
            patience = deadline.remaining if self.patience is None else self.patience
            self._running.enter_context(lease(self._board, patience))
            url = self._board.link.url
            assert url is not None  # `_load` looked
            baud = _speeds.get(url, self._board.link.baud)
            line = self._running.enter_context(SerialLine.of(self._board, url, baud))
            link = MonitorLink(line, self._board.link.baud)
            firmware = ResidentFirmware.of(image.elf)
            monitor = self._resident(line, link, firmware, deadline, seconds)
            self._check(monitor)
            link.change_speed(self._board.link.fastest_baud, deadline)  # where it cannot, a run takes longer: a note
            _speeds[url] = line.baud
            uploaded = link.upload(firmware.package, deadline, self._uploading)
            seconds["upload"] = uploaded.seconds
            link.start(uploaded, monitor.cpu_hz)
            while not collector.complete:
                self._feed(link, collector, deadline)
                if collector.started:
                    seconds.setdefault("launch", time.perf_counter() - started)
            collector.close()
            outcome = collector.outcome(seconds)
        except TimeoutError as error:
            raise collector.timeout_error(timeout) from error
        except TargetError as error:
            raise error.replace(console=collector.console) from error.__cause__
        seconds["total"] = time.perf_counter() - started
        board_run = self._board_run(monitor, line, uploaded, seconds)
        notes = (*outcome.notes, *_losses(uploaded), *_slowness(line.baud, self._board.link.fastest_baud))
        return dataclasses.replace(outcome, notes=notes, seconds=seconds, board=board_run)

    def _board_run(
        self, monitor: Monitor, line: SerialLine, uploaded: Uploaded, seconds: Mapping[str, float]
    ) -> BoardRun:
        board = self._board
        # A firmware that could not set up its clocks says so; then the NPU's is another one than the file's, too.
        npu_hz = board.npu_hz if monitor.cpu_hz == board.soc.cpu_hz else 0
        return BoardRun(
            probe=board.loading.serial,
            server=board.loading.server.value,
            link=line.url,
            baud=line.baud,
            cpu_hz=monitor.cpu_hz,
            npu_hz=npu_hz,
            loaded="load" in seconds,
            load_seconds=seconds.get("load", 0.0),
            upload_bytes=uploaded.size,
            upload_seconds=uploaded.seconds,
            sent_again=uploaded.again,
            damaged=uploaded.damaged,
            lost=uploaded.lost,
            untried=board.untried,
            simulated=board.simulated,
        )

    def _reset(self) -> None:
        self._running.close()

    def _feed(self, link: MonitorLink, collector: Collector, deadline: Deadline) -> None:
        deadline.check()
        try:
            collector.feed(link.output(min(_ANSWER_SECONDS, deadline.remaining), started=collector.started))
        except TargetError:
            if collector.failure is not None and not collector.complete:
                raise collector.failure from None
            raise
        if link.restarted and not collector.complete:
            raise collector.failure or TargetError(
                f"the board started again {collector.progress_text()}",
                kind=FailureKind.LOST_BOARD,
                hint="look for a watchdog, an unstable supply, or a pressed reset button",
            )

    def _resident(
        self,
        line: SerialLine,
        link: MonitorLink,
        firmware: ResidentFirmware,
        deadline: Deadline,
        spent: dict[str, float],
    ) -> Monitor:
        """Return the monitor of this firmware. It is loaded where it is not on the board yet."""
        monitor = self._ask(line, link, deadline)
        if monitor is not None and monitor.code_crc32 == firmware.code_crc32:
            return monitor
        if self._board.loading.server is Server.NONE:
            raise self._other_firmware(monitor)
        began = time.perf_counter()
        self._load_firmware(firmware, deadline)
        if Quirk.REOPEN_SERIAL in self._board.quirks:
            line.reopen()
        line.drop_input()
        spent["load"] = time.perf_counter() - began
        line.baud = self._board.link.baud
        monitor = link.sync(Deadline(min(_STARTED_SECONDS, deadline.remaining)))
        if monitor is None:
            deadline.check()
            raise TargetError(
                f"the firmware was loaded and started, and does not answer on {line.url}: {silence(self._board.soc)}",
                kind=FailureKind.TIMEOUT,
                hint="is it the board's own serial port, and the right speed? `ethos-hil boards explain "
                f"{self._board.name}` has both",
            )
        if monitor.code_crc32 != firmware.code_crc32:
            raise TargetError(
                f"the firmware in memory has the CRC-32 0x{monitor.code_crc32:08x}, not 0x{firmware.code_crc32:08x}",
                kind=FailureKind.READBACK,
                hint="something has changed its code since it was loaded",
            )
        return monitor

    def _ask(self, line: SerialLine, link: MonitorLink, deadline: Deadline) -> Monitor | None:
        """Return the monitor that answers, whatever its firmware."""
        first = self._board.link.baud
        if line.baud != first:
            monitor = link.sync(Deadline(min(_THERE_SECONDS / 2, deadline.remaining)))
            if monitor is not None:
                return monitor
            line.baud = first
        return link.sync(Deadline(min(_THERE_SECONDS, deadline.remaining)))

    def _load_firmware(self, firmware: ResidentFirmware, deadline: Deadline) -> None:
        """Load by the probe; after a failure that power may cure, once more after a power cycle, if there is time."""
        try:
            try:
                self._load_once(firmware, deadline)
            except TargetError as error:
                if self._board.power is None or error.kind not in _RETRIED or deadline.passed:
                    raise
                self._tell(f"{error.message}: power cycle")
                power_cycle(self._board)
                self._load_once(firmware, deadline)
        except (TargetError, TargetNotAvailable) as error:
            if deadline.passed:
                message = f"no end within {deadline.seconds:g} s, while the firmware was loaded: {error.message}"
                raise error.replace(message=message, kind=FailureKind.TIMEOUT) from error
            raise

    def _load_once(self, firmware: ResidentFirmware, deadline: Deadline) -> None:
        board = self._board
        clocks = Clocks(self.clocks.cpu_hz, self.clocks.peripheral_hz, board.link.baud)
        loading = dataclasses.replace(board.loading, timeout=min(board.loading.timeout, deadline.remaining))
        with board_remote(loading, seconds=min(_PROBE_SECONDS, deadline.remaining)) as remote:
            loaded = load(
                remote,
                firmware.elf,
                words=board.reset,
                vector_table=board.soc.boot,
                parts=firmware.parts_with(clocks),
                soc=board.soc,
                progress=self._loading,
                deadline=deadline,
            )
            start(remote, loaded, deadline)

    def _check(self, monitor: Monitor) -> None:
        """Check that it is this board. Raises TargetError of kind "wrong-board"."""
        if monitor.board != self._board.soc.number:
            raise TargetError(
                f"the firmware on the board says it is for number {monitor.board}; {self._board.name} is "
                f"{self._board.soc.number}",
                kind=FailureKind.WRONG_BOARD,
                hint="is it the right serial port?",
            )
        if monitor.npu_id == 0:
            raise TargetError(
                f"no NPU answers at 0x{self._board.soc.npu_registers.base:08x}: the firmware reads 0 from its ID",
                kind=FailureKind.WRONG_BOARD,
                hint="has it power and a clock, and is it in this FPGA image? `ethos-hil boards bring-up` looks at it",
            )

    def _other_firmware(self, monitor: Monitor | None) -> EthosHilError:
        if monitor is None:
            return TargetNotAvailable(
                f"nothing answers on {self._board.link.url}, and {self._board.name} has no probe to load the firmware "
                "with",
                hint="flash the firmware, or state a probe in the board's file (`[load]`)",
            )
        return TargetError(
            f"the board has another firmware than this one: its code has the CRC-32 0x{monitor.code_crc32:08x}",
            kind=FailureKind.WRONG_BOARD,
            hint="flash the firmware of this version of ethos-hil",
        )

    def _uploading(self, done: int, size: int) -> None:
        self._at_most_once_a_second(f"{done:,} of {size:,} bytes uploaded")

    def _loading(self, done: int, size: int) -> None:
        self._at_most_once_a_second(f"firmware: {done:,} of {size:,} bytes written and read back")

    def _at_most_once_a_second(self, text: str) -> None:
        now = time.monotonic()
        if now - self._told >= _TELL_SECONDS:
            self._told = now
            self._tell(text)


def missing(board: Board) -> TargetNotAvailable | None:
    """Return what a board's file does not say and a run needs, or None."""
    if board.link.url is None:
        return TargetNotAvailable(
            f"the file of {board.name} does not say which serial port the board is at",
            hint=f'make a file with `extends = "{board.name}"` and `[link] url = "/dev/..."`; docs/boards.md has an '
            "example",
        )
    return None


def power_cycle(board: Board) -> None:
    """Switch a board off and on.

    Raises:
        ToolError: its file has no commands for that, or one fails.
    """
    power = board.power
    if power is None:
        raise ToolError(f"nothing switches the power of {board.name}", hint="state `[power]` in its file")
    for command in (power.cycle,) if power.cycle else (power.off, power.on):
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_POWER_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            raise ToolError(f"{board.name} cannot be switched off and on by {command[0]}: {error}") from error
    time.sleep(power.settle)


def _losses(uploaded: Uploaded) -> Iterator[str]:
    if uploaded.again or uploaded.damaged or uploaded.lost:
        yield (
            f"of an upload of {uploaded.size:,} bytes {uploaded.again:,} were sent again: {uploaded.damaged:,} frames "
            f"were damaged, and the UART lost {uploaded.lost:,} bytes"
        )


def _slowness(baud: int, fastest: int) -> Iterator[str]:
    if baud != fastest:
        yield (
            f"the two ends do not understand each other at {fastest:,} baud, so the line had {baud:,}; each run tries "
            "it again: state a link.fastest_baud that works"
        )
