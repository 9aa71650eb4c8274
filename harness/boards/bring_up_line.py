"""The steps of `ethos-hil boards bring-up` on the serial line: the firmware hears and answers, and nothing is lost."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board, Quirk, Server
from ethos_hil.harness.boards.bring_up_probe import NpuIdentity, check_identity
from ethos_hil.harness.boards.bring_up_report import StepFinding
from ethos_hil.harness.boards.loadable import ResidentFirmware
from ethos_hil.harness.boards.monitor import Monitor, MonitorLink, Uploaded
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.boards.target import missing

Tell = Callable[[str], None]

_ANSWER_SECONDS = 5.0
"""For a firmware that was just started."""
_STILL_THERE_SECONDS = 2.0
MOST_BYTES = 1 << 20
_MOST_SECONDS = 30.0
"""That the upload at the fastest speed takes at most, without losses."""
_PATIENCE = 4
"""Times as long as the line needs, after which an upload is given up."""
_LOSSES = "a shorter cable, another USB port or hub, or a lower link.fastest_baud; runs are right all the same"
_SEED = 19


class BoardLine:
    """The serial line to a board, and the conversation with its firmware.

    Attributes:
        board: the board.
        monitor: what answered, once it did.
    """

    def __init__(self, board: Board, using: contextlib.ExitStack) -> None:
        """Prepare it; `using` closes the port in the end."""
        self.board = board
        self.monitor: Monitor | None = None
        self._line: SerialLine | None = None
        self._link: MonitorLink | None = None
        using.callback(self.close)

    def open(self) -> None:
        """Open the port, unless it is open.

        Raises:
            TargetNotAvailable: the file names none, or it cannot be opened.
        """
        if self._line is not None:
            return
        lacking = missing(self.board)
        if lacking is not None:
            raise lacking
        url = self.board.link.url
        assert url is not None  # `missing` looked
        self._line = SerialLine.of(self.board, url, self.board.link.baud)
        self._link = MonitorLink(self._line)

    def forget(self) -> None:
        """Forget what has come so far, if the port is open."""
        if self._line is not None:
            self._line.drop_input()

    def after_load(self) -> None:
        """Take note that a probe has loaded the board: some upset their serial port by that."""
        if self._line is not None and Quirk.REOPEN_SERIAL in self.board.quirks:
            self._line.reopen()

    def close(self) -> None:
        """Close the port. May be called again."""
        if self._line is not None:
            self._line.close()
        self._line = self._link = None

    @property
    def line(self) -> SerialLine:
        """The open port."""
        assert self._line is not None  # the step before opened it
        return self._line

    @property
    def link(self) -> MonitorLink:
        """The conversation."""
        assert self._link is not None  # the step before opened it
        return self._link


def ask_monitor(there: BoardLine, firmware: ResidentFirmware) -> StepFinding:
    """Ask the firmware's monitor who it is."""
    board, line = there.board, there.line
    answer = there.link.sync(Deadline(_ANSWER_SECONDS))
    values: dict[str, object] = {
        "port": line.url,
        "baud": line.baud,
        "sent_bytes": line.sent,
        "received_bytes": line.received,
        "first_word_came": there.link.restarted,
    }
    if answer is None:
        text, remedy = _silence(there)
        return StepFinding.failed(FailureKind.LINK, text, remedy, values)
    there.monitor = answer
    values |= {
        "board": answer.board,
        "cpu_hz": answer.cpu_hz,
        "window_bytes": answer.window,
        "code_crc32": f"0x{answer.code_crc32:08x}",
        "lost_bytes": answer.lost,
    }
    if answer.board != board.soc.number:
        return StepFinding.failed(
            FailureKind.WRONG_BOARD,
            f"the firmware that answers is for number {answer.board}; {board.soc.name} is {board.soc.number}",
            "is it the serial port of this board?",
            values,
        )
    if answer.code_crc32 != firmware.code_crc32:
        ours = board.loading.server is not Server.NONE
        return StepFinding.failed(
            FailureKind.READBACK if ours else FailureKind.WRONG_BOARD,
            f"the firmware that answers has code with the CRC-32 0x{answer.code_crc32:08x}; this one's is "
            f"0x{firmware.code_crc32:08x}",
            "is it the serial port of this board?" if ours else "flash the firmware of this version of ethos-hil",
            values,
        )
    text = f"it answers at {line.baud:,} baud: {answer.cpu_hz / 1e6:g} MHz, room for {answer.window:,} bytes"
    return StepFinding(text, values)


def npu_of_firmware(there: BoardLine, npus: tuple[str, ...]) -> StepFinding:
    """Compare what the firmware reads of its NPU with the board's file."""
    assert there.monitor is not None  # the step before saw to it
    identity = NpuIdentity(there.monitor.npu_id, there.monitor.npu_config)
    base = there.board.soc.npu_registers.base
    if identity.answers:
        return check_identity(npus, identity, {"base": f"0x{base:08x}"})
    return StepFinding.failed(
        FailureKind.WRONG_BOARD,
        f"the firmware finds no NPU at 0x{base:08x}: {identity.words}",
        "correct soc.npu.base, or what clocks and powers the NPU in the firmware's port",
        {"id": f"0x{identity.id_word:08x}", "config": f"0x{identity.config_word:08x}"},
    )


def fastest_speed(there: BoardLine, tell: Tell) -> StepFinding:
    """Change to the fastest speed of the file, upload a megabyte, and change back."""
    line, settings = there.line, there.board.link
    if not there.link.change_speed(settings.fastest_baud, Deadline(4 * _ANSWER_SECONDS)):
        return StepFinding.failed(
            FailureKind.LINK,
            f"the two ends do not understand each other at {settings.fastest_baud:,} baud, as at {settings.baud:,}",
            "state a lower link.fastest_baud; is soc.peripheral_hz right?",
            {"baud": settings.fastest_baud},
        )
    size = min(MOST_BYTES, int(_MOST_SECONDS / line.seconds_for(1)))
    try:
        return _measure(there, size, tell)
    finally:
        there.link.change_speed(settings.baud, Deadline(_ANSWER_SECONDS))


def _measure(there: BoardLine, size: int, tell: Tell) -> StepFinding:
    """Upload bytes, and tell what became of them."""
    assert there.monitor is not None
    line, baud = there.line, there.line.baud
    size = min(size, there.monitor.window)
    data = random.Random(_SEED).randbytes(size)
    seconds = _PATIENCE * line.seconds_for(size) + _ANSWER_SECONDS
    try:
        done = there.link.upload(data, Deadline(seconds), lambda now, of: tell(f"{now:,} of {of:,} bytes"))
    except TargetError as error:
        raise _explain(there, error) from error.__cause__
    except TimeoutError as error:
        late = TargetError(f"{size:,} bytes at {baud:,} baud take more than {seconds:.0f} s", kind=FailureKind.LINK)
        raise _explain(there, late) from error
    share = line.seconds_for(size) / done.seconds
    values = {
        "baud": baud,
        "bytes": size,
        "seconds": round(done.seconds, 3),
        "bytes_per_second": round(size / done.seconds),
        "share_of_line_rate": round(share, 3),
        "sent_again_bytes": done.again,
        "damaged_frames": done.damaged,
        "lost_bytes": done.lost,
    }
    text = f"{size:,} bytes at {baud:,} baud in {done.seconds:.1f} s, {_share(share)}; {_losses(done)}"
    return StepFinding(text, values, remedy=_LOSSES if done.again or done.damaged or done.lost else "")


def _explain(there: BoardLine, error: TargetError) -> TargetError:
    """Return the error of an upload with what to do here, where its own hint says to make this check."""
    if error.kind is FailureKind.LOST_BOARD:
        return error.replace(hint="is its supply steady, and does a watchdog run? Power it by another cable or hub")
    if error.kind is not FailureKind.LINK:
        return error
    if there.link.sync(Deadline(_STILL_THERE_SECONDS)) is None:
        return error.replace(
            message=f"{error.message}, and its firmware answers no more",
            hint="was the cable pulled? Else the processor hangs: switch the board off and on, and look at its supply",
        )
    return error.replace(hint=f"is the cable sound? {_LOSSES}")


def _share(share: float) -> str:
    return f"{share:.0%} of the line's rate" if share <= 1 else "faster than such a line is"


def _losses(done: Uploaded) -> str:
    if not (done.again or done.damaged or done.lost):
        return "nothing was lost"
    return (
        f"{done.again:,} bytes were sent again: {done.damaged:,} frames damaged, {done.lost:,} bytes lost in the UART"
    )


def _silence(there: BoardLine) -> tuple[str, str]:
    """Return what a line without an answer says, and what to do."""
    line = there.line
    where = f"{line.url} at {line.baud:,} baud"
    if there.link.restarted:
        return (
            f"the firmware's first word arrives on {where}, and it does not answer: it does not hear",
            "is the line from the host to the board connected, and is another program writing to the port?",
        )
    if line.received:
        return (
            f"{line.received:,} bytes came on {where}, and none of them is the firmware's",
            "is the speed right (link.baud, soc.peripheral_hz)? Is it another serial port of the board, such as its "
            "controller's?",
        )
    places = " or ".join(f"0x{uart.base:08x}" for uart in there.board.soc.uarts)
    return (
        f"nothing came on {where}; {line.sent:,} bytes were sent. The firmware's UART is at {places}",
        "is it the board's own serial port, and do switches connect it to that UART? "
        f"`ethos-hil boards explain {there.board.name}`",
    )
