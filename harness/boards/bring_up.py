"""`ethos-hil boards bring-up`: the guided check of a board that is new, or that does not do what it did.

Steps are made in an order in which each explains the next: the board's file, the debug probe, memories, the firmware,
the NPU, the serial line, and then all of it together with one convolution. A step that needs one that failed is left
out, because it would fail for the same reason and hide it.

The convolution's answers are compared bit by bit. It needs the NPU's interrupt, what the NPU reads and writes of
memory, and the caches around it. Two inputs take turns, so an answer that stays in a cache or in memory from before is
wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import EthosHilError, LinkError, TargetError, TargetNotAvailable, ToolError
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.boards import bring_up_probe as probes
from ethos_hil.harness.boards.board import UNTRIED, Board, Quirk, Server
from ethos_hil.harness.boards.bring_up_probe import NpuIdentity, ParkedBoard, check_identity, spans
from ethos_hil.harness.boards.bring_up_report import BringUpStep, StepFinding, StepStatus, status_of
from ethos_hil.harness.boards.lease import lease
from ethos_hil.harness.boards.loadable import LoadableImage, ResidentFirmware
from ethos_hil.harness.boards.monitor import Monitor, MonitorLink, Uploaded
from ethos_hil.harness.boards.serial_line import SerialLine
from ethos_hil.harness.boards.target import missing
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.lowering.cache.contents import prepare_torch

if TYPE_CHECKING:
    from ethos_hil.base.record import Record
    from ethos_hil.lowering.model.torch_model import TorchModel


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
        late = LinkError(f"{size:,} bytes at {baud:,} baud take more than {seconds:.0f} s")
        raise _explain(there, late) from error
    share = line.seconds_for(size) / done.seconds
    rate = f"{share:.0%} of the line's rate" if share <= 1 else "faster than such a line is"
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
    text = f"{size:,} bytes at {baud:,} baud in {done.seconds:.1f} s, {rate}; {_losses(done)}"
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


LABEL = "bring-up"
_CHANNELS, _SIDE = 16, 16
_TURNS = 3
"""Executions of each input."""
_SEED = 19


def convolution(target: str, npu: str, tell: Callable[[str], None], timeout: float) -> StepFinding:
    """Lower a convolution, run it on the board, and compare its answers.

    Args:
        target: the board as `--target` names it.
        npu: its NPU.
        tell: gets what is done.
        timeout: seconds for the run.
    """
    prepare_torch()
    from ethos_hil.base.question import Question
    from ethos_hil.harness.run import run

    model, inputs = _model()
    question = Question(model, npu=npu, target=target, inputs=inputs, repeat=_TURNS, timeout=timeout)
    try:
        return check_record(run(question, reporter=_StageTeller(tell)).record)
    except TargetError as error:
        raise error if error.hint else error.replace(hint=_NO_END) from error.__cause__


def check_record(record: Record) -> StepFinding:
    """Return what the record of the run says."""
    metrics = {metric.name: f"{metric.value:g} {metric.unit} ({metric.provenance})" for metric in record.metrics}
    wanted = ("npu_cycles", "cpu_cycles", "load_seconds", "upload_seconds", "launch_seconds", "target_seconds")
    values: dict[str, object] = {
        "verdict": str(record.verdict),
        "executions": record.executions,
        "firmware_sha256": record.firmware_sha256,
        "notes": list(record.notes),
        **{name: metrics[name] for name in wanted if name in metrics},
    }
    if record.verdict is not Verdict.VERIFIED:
        failure = record.failure
        kind = FailureKind.MISMATCH if failure is None else FailureKind(failure.kind)
        text = f"{record.verdict}: {'' if failure is None else failure.message}"
        remedy = "" if failure is None else failure.hint or ""
        return StepFinding.failed(kind, text, remedy or _MISMATCH, values)
    compared = sum(output.compared for output in record.outputs)
    cycles = f", {metrics['npu_cycles']}" if "npu_cycles" in metrics else ""
    return StepFinding(
        f"verified: {compared:,} elements of {record.executions} executions are right, bit for bit{cycles}", values
    )


_NO_END = (
    "the steps before this one passed, so the board lives: does the NPU have its clock, does its interrupt arrive "
    "(soc.npu.irq), and does it reach the memories that the file says it does (npu = true)?"
)
_MISMATCH = (
    "the NPU answers, and wrongly: are its memories the file's (npu = true), the caches as its port has them, and "
    "soc.npu.irq right?"
)


@dataclass(frozen=True)
class _StageTeller:
    """Hands on what a run tells of its stages."""

    stage: Callable[[str], None]

    def step(self, done: int, total: int) -> None:
        """Tell nothing: the executions take no time."""


def _model() -> tuple[TorchModel, tuple[tuple[np.ndarray, ...], ...]]:
    """Return the model, and two inputs. They are the same every time, so that a lowering is found in the cache."""
    import torch

    from ethos_hil.lowering.model.torch_model import from_module

    draws = torch.Generator().manual_seed(_SEED)
    layer = torch.nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=draws) - 0.5)
    first, second = (torch.rand(1, _CHANNELS, _SIDE, _SIDE, generator=draws) * 2 - 1 for _ in range(2))
    model = from_module(layer.eval(), (first,), [(first,), (second,)], label=LABEL)
    return model, ((first.numpy(),), (second.numpy(),))


LEASE_SECONDS = 5.0
"""To wait for whoever uses the board: someone sits in front of it."""
RUN_SECONDS = 60.0


class BringUp:
    """One check of one board.

    Attributes:
        steps: those that are done.
        npu: name of the NPU that was found; "" until then.
        firmware: the firmware; None where there is none.
    """

    def __init__(
        self, board: Board, target: str, npu: str, tell: Callable[[BringUpStep], None], reporter: Reporter
    ) -> None:
        """Prepare a check.

        Args:
            board: the board.
            target: as `--target` names it: "board:NAME".
            npu: the NPU that it has to have; "" for one of those in its file.
            tell: gets each step when it is done.
            reporter: gets what goes on.
        """
        self._board = board
        self._target = target
        self._npus = (npu,) if npu else board.npus
        self._tell_step = tell
        self._reporter = reporter
        self.steps: list[BringUpStep] = []
        self.npu = ""
        self.firmware: ResidentFirmware | None = None
        self._no_firmware: ToolError | None = None
        self._has_probe = board.loading.server is not Server.NONE
        self._memories: list[str] = []
        self._stated_hz = 0
        self._name = ""

    def run(self) -> tuple[BringUpStep, ...]:
        """Make all steps. Nothing that was opened or started is left, however this ends.

        Returns:
            The steps in their order.
        """
        try:
            self.firmware = ResidentFirmware.of(find_firmware(self._board.soc.name))
        except ToolError as error:
            self._no_firmware = error
        self._step("file", self._file)
        with contextlib.ExitStack() as using:
            self._step("lease", lambda: self._take(using), "file")
            self._probe_steps()
            there = BoardLine(self._board, using)
            self._step("firmware", partial(self._load, there), "probe", *self._memories)
            self._step("monitor", partial(self._monitor, there), "firmware" if self._has_probe else "lease")
            self._step("npu", partial(self._npu, there), "monitor")
            self._step("speed", partial(fastest_speed, there, self._tell), "monitor")
        self._step("convolution", lambda: convolution(self._target, self.npu, self._tell, RUN_SECONDS), "npu", "speed")
        self._step("clock", self._clock, "probe", "monitor")
        return tuple(self.steps)

    def _step(self, name: str, action: Callable[[], StepFinding], *needs: str) -> None:
        self._name = name
        self._reporter.stage(f"{self._board.name}: {name}")
        began, status = time.monotonic(), 0
        lacking = next((need for need in needs if self._status(need) is not StepStatus.OK), None)
        if lacking is not None:
            word = "failed" if self._status(lacking) is StepStatus.FAILED else "was left out"
            finding = StepFinding.left_out(f"it needs the step {lacking!r}, which {word}")
        else:
            try:
                finding = action()
            except EthosHilError as error:
                finding, status = StepFinding.of(error), status_of(error)
        if finding.status is StepStatus.FAILED:
            status = status or 1
        step = BringUpStep(name, finding, round(time.monotonic() - began, 3), status)
        self.steps.append(step)
        self._tell_step(step)

    def _status(self, name: str) -> StepStatus:
        return next((step.status for step in self.steps if step.name == name), StepStatus.LEFT_OUT)

    def _tell(self, text: str) -> None:
        self._reporter.stage(f"{self._board.name}: {self._name}: {text}")

    @property
    def _own(self) -> ResidentFirmware:
        if self.firmware is None:
            assert self._no_firmware is not None  # one of the two is set
            raise self._no_firmware
        return self.firmware

    def _file(self) -> StepFinding:
        """Tell of the file, which was checked when it was read."""
        board = self._board
        tried = sum(value.tried != UNTRIED for value in board.values)
        text = f"{len(board.values)} values agree with one another; {tried or 'none'} of them tried on a real board"
        values = {
            "file": board.path.name,
            "sha256": hashlib.sha256(board.path.read_bytes()).hexdigest(),
            "values": len(board.values),
            "tried": tried,
        }
        return StepFinding(text, values)

    def _take(self, using: contextlib.ExitStack) -> StepFinding:
        using.enter_context(lease(self._board, LEASE_SECONDS))
        return StepFinding("no one else on this machine uses the board")

    def _probe_steps(self) -> None:
        image = None if self.firmware is None else LoadableImage.parse(self.firmware.elf, self._board.soc.boot)
        probed = ParkedBoard(self._board, image)
        self._step("probe", partial(self._probe, probed), "lease")
        needs = ["probe"]
        for span in spans(self._board.soc):
            name = f"memory {span.name}"
            self._step(name, partial(probes.memory, probed, span, self._tell), *needs)
            if self.steps[-1].finding.kind is FailureKind.PROBE:
                needs.append(name)  # it lost the probe, not the memory
            # One that only a loader writes is left out, and tested by loading it.
            if self._status(name) is not StepStatus.LEFT_OUT:
                self._memories.append(name)

    def _probe(self, probed: ParkedBoard) -> StepFinding:
        if not self._has_probe:
            return StepFinding.left_out('the file says that the board has no probe (loading.server = "none")')
        return probes.probe(probed)

    def _load(self, there: BoardLine) -> StepFinding:
        firmware = self._own
        # Before the firmware starts, to hear its first word. That it cannot be opened is told by the next step.
        with contextlib.suppress(TargetNotAvailable):
            there.open()
        finding = probes.load_firmware(self._board, firmware, self._tell, there.forget)
        there.after_load()
        return finding

    def _monitor(self, there: BoardLine) -> StepFinding:
        firmware = self._own
        there.open()
        finding = ask_monitor(there, firmware)
        if there.monitor is not None:
            self._stated_hz = there.monitor.cpu_hz
        return finding

    def _npu(self, there: BoardLine) -> StepFinding:
        finding = npu_of_firmware(there, self._npus)
        if finding.status is StepStatus.OK:
            self.npu = str(finding.values["npu"])
        return finding

    def _clock(self) -> StepFinding:
        with lease(self._board, LEASE_SECONDS):
            return probes.clock(self._board, self._stated_hz, self._tell)
