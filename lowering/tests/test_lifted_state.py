"""Buffers that a model writes are state of the quantised program: what its calls leave is what the next ones meet."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ethos_hil.base.errors import CompileError
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.testing.function_module import keeping
from ethos_hil.lowering.tests.conftest import U55
from ethos_hil.lowering.upstream import toolchain
from ethos_hil.lowering.upstream.state import LiftedState

X = torch.tensor([[0.5, -0.25, 1.0, 0.125]])


def delay() -> nn.Module:
    """Answers with the input of two calls before."""

    def step(module: Any, x: Tensor) -> Tensor:
        module.line.copy_(torch.cat([module.line[:, 1:], x[:, None]], 1))
        return module.line[:, 0] * 1.0

    return keeping(step, line=torch.zeros(1, 3, 4))


class Ring(nn.Module):
    """A convolution over the last inputs, in a ring that is written at a moving place, which is int64."""

    past: Tensor
    at: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(4, 6, 3)
        self.register_buffer("past", torch.zeros(1, 4, 3))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.past.index_copy_(2, self.at, x[:, :, None])
        self.at.copy_((self.at + 1) % 3)
        return torch.relu(self.conv(self.past))[:, :, 0]


def tally() -> nn.Module:
    """Counts its calls in int32, beside a float answer."""

    def step(module: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        module.n.copy_(module.n + 1 + 2)  # by two operators
        return x * 2, module.n + 0

    return keeping(step, n=torch.zeros(1, dtype=torch.int32))


class Alone(nn.Module):
    """Takes nothing: what it answers follows from its state."""

    x: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.register_buffer("x", torch.zeros(1, 4))

    def forward(self) -> Tensor:
        y = torch.tanh(self.layer(self.x))
        self.x.copy_(y)
        return y


def answers(module: nn.Module, cache: Cache, calls: int = 5) -> tuple[Artifact, list[tuple[np.ndarray, ...]]]:
    inputs = () if isinstance(module, Alone) else (X,)
    artifact = lower(from_module(module, inputs), U55, cache=cache)
    run = Reference(artifact).run(tuple(tensor.numpy() for tensor in inputs), repeat=calls)
    return artifact, [run.of(call).outputs for call in range(calls)]


@pytest.mark.parametrize("kind", [delay, Ring, Alone])
def test_each_call_answers_as_the_model_does(kind: Callable[[], nn.Module], cache: Cache) -> None:
    module = kind()
    artifact, calls = answers(module, cache)
    assert artifact.keeps_state
    assert (artifact.lost, artifact.frozen) == ((), ())
    eager = copy.deepcopy(module)
    wanted = [eager(*(() if kind is Alone else (X,))).detach().numpy() for _ in calls]
    assert len({array.tobytes() for array in wanted}) > 1, "this model shows no state"
    largest = max(np.abs(array).max() for array in wanted)
    for call, outputs in enumerate(calls):
        # A few roundings to 8 bits, which do not add up from call to call.
        np.testing.assert_allclose(outputs[0], wanted[call], atol=largest / 16)


def test_what_is_kept_is_not_rounded_again_in_each_call(cache: Cache) -> None:
    _, calls = answers(delay(), cache, calls=8)
    assert [bool(outputs[0].any()) for outputs in calls[:3]] == [False, False, True]
    assert len({outputs[0].tobytes() for outputs in calls[2:]}) == 1


def test_integers_are_kept_exactly(cache: Cache) -> None:
    _, calls = answers(tally(), cache)
    assert [int(outputs[1][0]) for outputs in calls] == [3, 6, 9, 12, 15]


def test_without_the_lift_the_state_is_lost_and_named(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiftedState, "of", lambda *_: None)
    artifact, _ = answers(delay(), Cache(tmp_path), calls=1)  # type: ignore[arg-type]
    assert artifact.lost == ("output 0 depends on buffer line in the model, not in the program",)


def test_a_delegate_does_not_own_state(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream would give it to the delegate as a constant: ExecuTorch then finds no buffer to write to."""
    monkeypatch.setattr(toolchain, "keep_state", lambda partitioner: partitioner)
    with pytest.raises(CompileError, match="does not point to a buffer that exists"):
        answers(tally(), Cache(tmp_path), calls=1)  # type: ignore[arg-type]


def test_a_method_with_state_cannot_be_delegated_whole(cache: Cache) -> None:
    with pytest.raises(CompileError, match="forward keeps state, and cannot be delegated whole") as caught:
        lower(from_module(delay(), (X,)), U55, whole=True, cache=cache)
    assert caught.value.hint == "leave out --whole"
