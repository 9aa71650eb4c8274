"""The step of `ethos-hil boards bring-up` that runs a model: one convolution, whose answers are compared bit by bit.

It needs the NPU's interrupt, what the NPU reads and writes of memory, and the caches around it. Two inputs take turns,
so an answer that stays in a cache or in memory from before is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.boards.bring_up_step import StepFinding
from ethos_hil.lowering.cache.settings import prepare_torch

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
        return judge_record(run(question, reporter=_StageTeller(tell)).record)
    except TargetError as error:
        raise error if error.hint else error.replace(hint=_NO_END) from error.__cause__


def judge_record(record: Record) -> StepFinding:
    """Return what the record of the run says."""
    metrics = {each.name: f"{each.value:g} {each.unit} ({each.provenance})" for each in record.metrics}
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
    "the steps before this one passed, so the board lives: does the NPU have its clock, and does it reach the memories "
    "that the file says it does (npu = true)?"
)
_MISMATCH = (
    "the NPU answers, and wrongly: are its memories the file's (npu = true), the caches as its port has them, and "
    "soc.npu.irq right?"
)


class _StageTeller:
    """Hands on what a run tells of its stages."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def stage(self, text: str) -> None:
        """Tell that a stage begins."""
        self._tell(text)

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
