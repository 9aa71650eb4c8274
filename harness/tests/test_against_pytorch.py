"""A verdict is about the model, and not only about what was compiled: exactly the wrong answer is red."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ethos_hil
import ethos_hil.lowering.lower as lowering
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import OracleError, UsageError
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.api import OpenTarget
from ethos_hil.harness.image.firmware_manifest import firmware_path
from ethos_hil.harness.virtual.board import QemuBoard
from ethos_hil.lowering.model.torch_model import Method, TorchModel, from_module
from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.upstream import pytorch_answers
from ethos_hil.lowering.upstream import quantizers as quantising
from ethos_hil.lowering.upstream.state import LiftedState

X = torch.tensor([[0.1, 0.2, 0.3, 0.4]])


@pytest.fixture(scope="module")
def board() -> Iterator[OpenTarget]:
    with ethos_hil.target(npu="ethos-u55-128") as target:
        yield target


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs that are spoilt on purpose."""
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "cache"))


class Heads(nn.Module):
    """A network with two outputs of the same shape, deep enough for errors to have no useful bound."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        torch.manual_seed(depth)
        layers = [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()) for _ in range(depth)]
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), *layers)
        self.one, self.two = nn.Linear(8, 12), nn.Linear(8, 12)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.body(x).mean((2, 3))
        return self.one(y), self.two(y)


SRAM_POOL = 0x3100_0000
"""Where the Corstone-300's pool of SRAM starts; firmware/boards/armv8m/board.ld."""


class Attribute(nn.Module):
    """Adds the number of calls, which it keeps in Python."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + self.calls


class Delayed(nn.Module):
    """Answers with the input of two calls before, which it keeps in Python."""

    line = (torch.zeros(1, 4),) * 3

    def forward(self, x: Tensor) -> Tensor:
        self.line = (*self.line[1:], x)
        return self.line[0] + x * 0.5


class Sum(nn.Module):
    """Adds up its inputs."""

    n: Tensor

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(1, 4))
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        self.n.add_(x * self.factor)
        return self.n * 2


def on_cpu(module: nn.Module, *inputs: Tensor) -> TorchModel:
    model = from_module(module, inputs)
    method: Method = dataclasses.replace(model.methods["forward"], on_cpu=True)
    return TorchModel("cpu", {"forward": method})


def failure(result: ethos_hil.Result, kind: FailureKind = FailureKind.ACCURACY) -> str:
    """The message of a failure, which must be of a kind."""
    assert result.failure is not None
    assert (result.verdict, result.failure.kind) == (Verdict.FAILED, kind)
    return result.failure.message


def test_an_integer_that_does_not_fit_is_an_overflow(board: OpenTarget) -> None:
    wide = torch.tensor([[2**40, 2**33 + 7, 3, 4]])
    message = failure(board.run(module_of(lambda x: x + 1), wide), FailureKind.OVERFLOW)
    assert "output 0 is int32, int64 in the model; PyTorch answers 1099511627777 at [0, 0], the program 1" in message
    message = failure(board.run(module_of(lambda x: x > 0), wide), FailureKind.OVERFLOW)
    assert message.startswith("input 0 has 1099511627776 at [0, 0]; the program narrows it to int32")
    with pytest.raises(OracleError, match=r"TOSA_UNPREDICTABLE.* ADD of aten\.add\.Tensor at ") as caught:
        board.run(module_of(lambda x: x + 1), torch.tensor([[1, 2**31 - 1]]))  # the input fits, the sum does not
    assert str(caught.value.hint).startswith("TOSA defines no answer where whole numbers")


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_cast_of_the_model_may_drop_bits(board: OpenTarget, dtype: torch.dtype) -> None:
    numbers = torch.tensor([[300, -5, 1000, 7]], dtype=dtype)
    result = board.run(module_of(lambda x: (x + 1, x.to(torch.int8))), numbers)
    assert result.verified
    assert result.outputs[1].tolist() == [[44, -5, -24, 7]]


WIDE = torch.linspace(-300, 300, 4096).reshape(1, 4, 32, 32)


@pytest.mark.slow
def test_what_a_table_of_16_bits_cannot_hold_is_told_with_the_line_and_8_bits_hold_it(board: OpenTarget) -> None:
    """A pole has no answer in TOSA; jumps between the points of a table are not PyTorch's; a wave beside it is."""
    fine = WIDE / 150
    with pytest.raises(OracleError, match=r"TOSA_UNPREDICTABLE.* TABLE of aten\.reciprocal\.default at ") as caught:
        board.run(module_of(lambda x: 1 / torch.tanh(x)), fine, scheme="a16w8")
    assert str(caught.value.hint).startswith("a table of 16 bits has no steps of more")
    kept = board.run(module_of(lambda x: 1 / torch.tanh(x.clamp(min=0.1))), fine, scheme="a16w8")
    assert kept.verified
    floors = board.run(module_of(torch.floor), WIDE, scheme="a16w8")
    assert "roundings explain at most" in failure(floors)
    assert str(floors.failure and floors.failure.hint).startswith(
        "with 16 bits the NPU has 512 points of aten.floor.default and joins them"
    )
    assert board.run(module_of(torch.floor), WIDE).verified
    assert board.run(module_of(torch.tan), fine, scheme="a16w8").verified  # it may be anything beside its pole


@pytest.mark.parametrize("depth", [0, *(pytest.param(depth, marks=pytest.mark.proof) for depth in (1, 14))])
@pytest.mark.usefixtures("own_cache")
def test_outputs_that_are_swapped_while_lowering_are_seen(
    board: OpenTarget, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, depth: int
) -> None:
    """What is compiled is exact, and exactly wrong: only PyTorch says so."""
    model = Heads(depth).eval()
    x = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    by_partitioner = lowering.by_partitioner

    def swapped(*arguments: Any, **options: Any) -> Any:
        manager = by_partitioner(*arguments, **options)
        output = manager.exported_program("forward").graph.output_node()
        output.args = (tuple(reversed(output.args[0])),)
        return manager

    with monkeypatch.context() as patch:
        patch.setattr(lowering, "by_partitioner", swapped)
        message = failure(board.run(model, x))
    assert "output 0 is PyTorch's output 1, output 1 is PyTorch's output 0" in message or "roundings explain" in message
    if depth == 14:
        assert "in another order" in message
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "right"))
    assert board.run(model, x).verified


@pytest.mark.usefixtures("own_cache")
def test_something_else_that_was_compiled_is_seen(board: OpenTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quantised program is that of another function."""
    quantise = quantising.quantise

    def other(floating: Any, *rest: Any) -> Any:
        module, _ = quantise(floating, *rest)
        wrong = torch.export.export(module_of(lambda x: x * 1.01 + 0.25), (X,)).module(check_guards=False)
        return module, quantise(wrong, *rest)[1]

    monkeypatch.setattr(quantising, "quantise", other)
    message = failure(board.run(module_of(lambda x: x * 1.01 + 0.2), X))
    assert "PyTorch's quantised module answers" in message
    assert "roundings explain at most" in message


def test_the_least_sqnr_that_the_user_accepts(board: OpenTarget) -> None:
    model = from_module(module_of(torch.sigmoid), (X,))
    assert board.run(model, min_sqnr=30.0).verified
    assert "dB against PyTorch, float64, at least 90 wanted" in failure(board.run(model, min_sqnr=90.0))
    assert "input set 1" in failure(board.run(model, [(X,), (X * 20,)], min_sqnr=30.0))  # saturates
    for limit in (math.nan, math.inf):
        with pytest.raises(UsageError, match="--min-sqnr is"):
            board.run(model, min_sqnr=limit)


@pytest.mark.usefixtures("own_cache")
def test_state_that_upstream_lost_is_not_green(board: OpenTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiftedState, "of", lambda *_: None)
    result = board.run(Sum(), X)
    assert failure(result, FailureKind.STATE) == (
        "the program does not keep the model's state: output 0 depends on buffer n in the model, not in the program"
    )
    np.testing.assert_allclose(result.outputs[0], 2 * X.numpy(), atol=0.01)


def test_state_of_python_is_a_note_for_one_call_and_a_failure_for_more(board: OpenTarget) -> None:
    model = from_module(Attribute(), (X,))
    once = board.run(model)
    assert once.verified
    text = "the model changes its attribute calls when it is called; the program answers like its first call"
    assert text in once.record.notes
    np.testing.assert_allclose(once.outputs[0], X.numpy() + 1, atol=0.01)
    for again in ({"repeat": 3}, {"inputs": [(X,), (X * 2,)]}):
        assert "its attribute calls" in failure(board.run(model, **again), FailureKind.STATE)
    delayed = from_module(Delayed(), (X,))
    assert board.run(delayed, repeat=2).verified, "its first two answers are equal"
    assert failure(board.run(delayed, repeat=3), FailureKind.STATE).startswith("call 3 of the model in PyTorch depends")


def test_a_program_that_keeps_its_state_is_compared_step_by_step(board: OpenTarget) -> None:
    eager = Sum()
    result = board.run(on_cpu(Sum(), X), [X, (X * 3,)], repeat=2)
    assert result.verified, result.failure
    for number, x in enumerate((X, X, X * 3, X * 3)):
        np.testing.assert_array_equal(result.outputs_of(number // 2, number % 2)[0], eager(x).numpy())
    assert (len(result.references), result.record.executions) == (2, 4)
    with pytest.raises(IndexError, match="input set 2, repeat 0: 4 executions were made"):
        result.outputs_of(2)
    # A board that stays up starts the next program with zeros as well.
    again = board.run(on_cpu(Sum(), X))
    np.testing.assert_array_equal(again.outputs[0], 2 * X.numpy())


def test_state_begins_at_zero_whatever_the_memory_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a board that was reset, and not switched off, after another run."""
    real = QemuBoard._fill

    def with_leftovers(board: QemuBoard, image: Mapping[int, bytes], deadline: Deadline) -> None:
        real(board, image, deadline)
        board.qtest.write(SRAM_POOL, b"B" * (1 << 20), deadline)  # 48.6 as float32

    monkeypatch.setattr(QemuBoard, "_fill", with_leftovers)
    assert ethos_hil.run(on_cpu(Sum(), X), repeat=3).verified


@pytest.mark.usefixtures("own_cache")
def test_a_step_that_differs_from_the_models_is_seen(board: OpenTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program adds up something else from the second call on."""
    in_turn = pytorch_answers.evaluate_in_turn

    def other(module: nn.Module, sets: Any, **options: Any) -> Any:
        return in_turn(Sum(1.0 + 2**-20) if isinstance(module, Sum) else module, sets, **options)

    monkeypatch.setattr(pytorch_answers, "evaluate_in_turn", other)
    assert "PyTorch answers" in failure(board.run(on_cpu(Sum(), X), repeat=3), FailureKind.STATE)


def test_a_runner_cannot_keep_state() -> None:
    with pytest.raises(UsageError, match="keeps state, and a runner boots for each of the 2 executions"):
        ethos_hil.run(on_cpu(Sum(), X), repeat=2, runner=firmware_path("corstone-300"))


def test_nan_and_infinity_are_not_answered_by_a_number_whoever_s_inputs_they_are_of(board: OpenTarget) -> None:
    """Which numbers are told from which, harness/verdict/tests/test_against_pytorch.py says."""
    message = failure(board.run(module_of(lambda x: (x + 1, torch.exp(x * 300))), X))
    assert "output 1: PyTorch answers inf at [0, 2]" in message
    model = from_module(module_of(lambda x: x * 2), (X,))
    assert board.run(model, [(X,), (X / 2,)]).verified
    odd = torch.tensor([[0.1, math.nan, 0.2, 0.3]])
    assert "PyTorch answers nan at [0, 1]" in failure(board.run(model, [(X,), (odd,)]))


def test_a_program_has_no_float_answers_for_other_inputs(board: OpenTarget, tmp_path: Path) -> None:
    model = from_module(module_of(torch.sigmoid), (X,))
    path = tmp_path / "known.pte"
    path.write_bytes(ethos_hil.lower(model).pte)
    assert board.run(str(path), min_sqnr=30.0).verified
    with pytest.raises(UsageError, match=r"--min-sqnr: .*known.pte is compiled, and PyTorch's answers are known for"):
        board.run(str(path), X * 2, min_sqnr=30.0)
