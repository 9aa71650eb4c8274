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
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.errors import EthosHilError, TargetError, TargetNotAvailable, ToolError
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.boards import bring_up_probe as probes
from ethos_hil.harness.boards.board import UNTRIED, Board, Server
from ethos_hil.harness.boards.bring_up_line import (
    BoardLine,
    ask_monitor,
    fastest_speed,
    npu_of_firmware,
)
from ethos_hil.harness.boards.bring_up_probe import ParkedBoard, spans
from ethos_hil.harness.boards.bring_up_report import BringUpStep, StepFinding, StepStatus, status_of
from ethos_hil.harness.boards.lease import lease
from ethos_hil.harness.boards.loadable import LoadableImage, ResidentFirmware
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.lowering.cache.contents import prepare_torch

if TYPE_CHECKING:
    from ethos_hil.base.record import Record
    from ethos_hil.lowering.model.torch_model import TorchModel

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


@dataclass(frozen=True)
class BringUpOrder:
    """What is checked.

    Attributes:
        board: the board.
        target: as `--target` names it: "board:NAME".
        npu: the NPU that it has to have; "" for one of those in its file.
        tell: gets each step when it is done.
        reporter: gets what goes on.
    """

    board: Board
    target: str
    npu: str
    tell: Callable[[BringUpStep], None]
    reporter: Reporter


class BringUp:
    """One check of one board.

    Attributes:
        steps: those that are done.
        npu: name of the NPU that was found; "" until then.
        firmware: the firmware; None where there is none.
    """

    def __init__(self, order: BringUpOrder) -> None:
        self._order = order
        self._board = order.board
        self.steps: list[BringUpStep] = []
        self.npu = ""
        self.firmware: ResidentFirmware | None = None
        self._no_firmware: ToolError | None = None
        self._has_probe = order.board.loading.server is not Server.NONE
        self._memories: list[str] = []
        self._stated_hz = 0
        self._name = ""

    def run(self) -> tuple[BringUpStep, ...]:
        """Make all steps. Nothing that was opened or started is left, however this ends.

        Returns:
            The steps in their order.
        """
        self._find_firmware()
        self._step("file", self._file)
        with contextlib.ExitStack() as using:
            self._step("lease", lambda: self._take(using), "file")
            self._probe_steps()
            self._line_steps()
        self._step("convolution", self._convolution, "npu", "speed")
        self._step("clock", self._clock, "probe", "monitor")
        return tuple(self.steps)

    def _step(self, name: str, action: Callable[[], StepFinding], *needs: str) -> None:
        self._name = name
        self._order.reporter.stage(f"{self._board.name}: {name}")
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
        self._order.tell(step)

    def _status(self, name: str) -> StepStatus:
        return next((step.status for step in self.steps if step.name == name), StepStatus.LEFT_OUT)

    def _tell(self, text: str) -> None:
        self._order.reporter.stage(f"{self._board.name}: {self._name}: {text}")

    def _find_firmware(self) -> None:
        try:
            self.firmware = ResidentFirmware.of(find_firmware(self._board.soc.name))
        except ToolError as error:
            self._no_firmware = error

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
        probed = ParkedBoard(self._board, self._image())
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

    def _line_steps(self) -> None:
        with contextlib.ExitStack() as using:
            there = BoardLine(self._board, using)
            self._step("firmware", partial(self._load, there), "probe", *self._memories)
            self._step("monitor", partial(self._monitor, there), "firmware" if self._has_probe else "lease")
            self._step("npu", partial(self._npu, there), "monitor")
            self._step("speed", partial(fastest_speed, there, self._tell), "monitor")

    def _image(self) -> LoadableImage | None:
        if self.firmware is None:
            return None
        return LoadableImage.parse(self.firmware.elf, self._board.soc.boot)

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
        finding = npu_of_firmware(there, (self._order.npu,) if self._order.npu else self._board.npus)
        if finding.status is StepStatus.OK:
            self.npu = str(finding.values["npu"])
        return finding

    def _convolution(self) -> StepFinding:
        return convolution(self._order.target, self.npu, self._tell, RUN_SECONDS)

    def _clock(self) -> StepFinding:
        with lease(self._board, LEASE_SECONDS):
            return probes.clock(self._board, self._stated_hz, self._tell)
