"""A program that keeps state, held against the model's own calls, one by one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import ethos_hil
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.link.outcome import Outcome, Run
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.against_pytorch import PyTorchFinding
from ethos_hil.harness.verdict.model_calls import ModelCalls, state_of, steps_of
from ethos_hil.harness.verdict.run_data import check_text, written_text
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.testing.function_module import keeping
from ethos_hil.lowering.tests.conftest import MODELS, U55

X = np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)


def on_cpu(module: nn.Module) -> Artifact:
    method = dataclasses.replace(from_module(module, (torch.from_numpy(X),)).methods["forward"], on_cpu=True)
    return lower(TorchModel("net", {"forward": method}), EthosU.parse("ethos-u55-128"))


@functools.cache
def summing() -> Artifact:
    """Adds up its inputs."""
    return on_cpu(keeping(lambda self, x: (x + 1, self.n.add_(x) * 2), n=torch.zeros(1, 4)))


def answers(count: int) -> list[tuple[np.ndarray, ...]]:
    """What the model answers to X, call after call."""
    return [(X + np.float32(1), sum([X] * (at + 1), np.zeros_like(X)) * np.float32(2)) for at in range(count)]


def of_runs(outputs: Sequence[tuple[np.ndarray, ...]]) -> Outcome:
    runs = tuple(Run(0, at, arrays, ()) for at, arrays in enumerate(outputs))
    return Outcome(b"", b"", b"", 0, 0, {}, runs, (), {})


def compared(outputs: list[tuple[np.ndarray, ...]], wanted: list[tuple[np.ndarray, ...]]) -> str | None:
    calls = ModelCalls(tuple(wanted), repeat=len(wanted))
    failure = steps_of(summing(), [(X,)] * len(outputs), calls, of_runs(outputs)).failure
    assert failure is None or failure.kind is FailureKind.STATE
    return failure.message if failure is not None else None


def test_the_first_step_that_differs_is_named_by_its_number_and_output() -> None:
    """Each call is held against the model's own. People count calls from 1, as in "call 1 of the model"."""
    assert compared(answers(3), answers(3)) is None
    for call, output in ((0, 0), (1, 1), (2, 0), (2, 1)):
        wrong = [tuple(map(np.copy, arrays)) for arrays in answers(3)]
        wrong[call][output][0, 2] += 1
        wrong[-1][-1][0, 3] += 1
        right = answers(3)[call][output][0, 2]
        said = f"call {call + 1}, output {output} at [0, 2]: PyTorch answers {right:.9g}, the program {right + 1:.9g};"
        assert str(compared(wrong, answers(3))).startswith(said)


def test_a_program_without_state_or_of_integers_has_no_steps() -> None:
    """They are compared elsewhere: here even a wrong answer says nothing."""
    for artifact in (dataclasses.replace(summing(), quantised=(X,)), on_cpu(nn.Identity())):
        outputs = tuple(X + 9 for _ in artifact.plan.outputs)
        calls = ModelCalls((tuple(X for _ in outputs),))
        assert steps_of(artifact, [(X,)], calls, of_runs([outputs])) == PyTorchFinding()


def test_what_the_program_does_not_keep_is_a_failure_or_a_note(recorded: Recorded) -> None:
    frozen = dataclasses.replace(summing(), frozen=("its attribute a", "its attribute b"))
    lost = dataclasses.replace(frozen, lost=("output 0 depends on buffer n",))
    recorded.check({
        "lost": state_of(lost, 1, None),
        "frozen, called once": state_of(frozen, 1, None),
        "frozen, called twice": state_of(frozen, 2, None),
        "kept": state_of(summing(), 2, None),
        "kept, by a model that changes": state_of(summing(), 2, ModelCalls((), unlike_first=1)),
    })  # fmt: skip


TYPIST = """
import torch

from ethos_hil.lowering.model import Method


class Typist(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, 8))

    def forward(self, x):
        self.mean.mul_(0.5).add_(0.5 * x)
        return {"letter": self.mean.argmax(-1).to(torch.int32) + 65, "scores": self.mean * 3}


def typist():
    x = (torch.arange(1.0, 9.0)[None] / 8,)
    return Method(Typist(), x, (x,) * 16, repeat=8, text="letter")
"""


class Forgetful(Engine):
    """An NPU that finds its memory empty in one of the executions."""

    jobs = 0

    def run(self, job: NpuJob) -> JobResult:
        self.jobs += 1
        if self.jobs == 5:  # two in each execution
            self._memory.write(self._memory.locate(job.bases[1]), bytes(64))
        return super().run(job)


def test_a_quantised_state_is_verified_and_one_that_is_lost_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text(TYPIST)
    model = f"{tmp_path / 'net.py'}:typist"
    record = ethos_hil.run(model, npu="ethos-u85-256").assert_verified().record
    assert (record.executions, record.text) == (8, "H" * 8)

    real = VirtualTarget.__init__
    monkeypatch.setattr(VirtualTarget, "__init__", functools.partialmethod(real, engine=Forgetful))
    broken = ethos_hil.run(model, npu="ethos-u85-256")
    assert broken.verdict is Verdict.FAILED
    assert broken.failure is not None
    assert broken.failure.kind is FailureKind.MISMATCH
    assert "repeat 2" in broken.failure.message


def outcome(*numbers: list[int]) -> Outcome:
    return of_runs([(np.zeros(1, np.float32), np.array(values)) for values in numbers])


def test_characters_of_all_executions_are_joined_and_what_is_none_is_replaced() -> None:
    def text(*numbers: list[int], name: str = "c") -> str:
        return written_text(outcome(*numbers), ("logits", "c"), name)

    assert text([72], [105, 10], [8364]) == "Hi\n€"
    assert text([-1], [0xD800], [0x110000], [65]) == "\ufffd\ufffd\ufffdA"
    assert text([0], [0xD7FF], [0xD800, 0xDFFF], [0xE000, 0x10FFFF]) == "\0\ud7ff\ufffd\ufffd\ue000\U0010ffff"
    assert text([65], name="") == "", "no output is no text"


def test_an_output_that_cannot_be_text_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    artifact = lower(f"{MODELS}:add", U55, cache=Cache(tmp_path_factory.mktemp("cache")))
    check_text(artifact, "")
    with pytest.raises(UsageError, match="says that its text is the output 'words', and has no such output"):
        check_text(artifact, "words")
    with pytest.raises(UsageError, match=r"says that its text is the output 'output 0', which is float32"):
        check_text(artifact, "output 0")
