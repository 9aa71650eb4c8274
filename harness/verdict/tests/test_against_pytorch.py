"""What is certain of a difference from PyTorch: types, integers, NaNs, and bounds."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

import numpy as np
import pytest
import torch

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Accuracy
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.verdict.against_pytorch import (
    PyTorchFinding,
    accuracies,
    against_example,
    against_float,
    against_limit,
    integers_that_do_not_fit,
    permutation,
)
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import KernelCall
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.results.text.record import accuracy_text


def told(finding: PyTorchFinding) -> str:
    """Return what a finding says: why it failed, or what is noted."""
    failure = finding.failure
    return f"{failure.kind}: {failure.message}" if failure is not None else "; ".join(finding.notes)


F32, F64, I8, I32, I64, BOOL = (
    functools.partial(np.array, dtype=name) for name in ("float32", "float64", "int8", "int32", "int64", "bool")
)
NAN, INF = float("nan"), float("inf")


DIFFERENCES: list[tuple[Any, Any]] = [
    (F64([1, 2]), F32([1, 3])), (F64([1, NAN]), F32([1, 0])), (F64([1, 2]), F32([1, INF])), (F64([-INF]), F32([INF])),
    (F64([NAN]), F32([INF])), (F64([INF]), F32([NAN])), (F64([-INF]), F32([NAN])),
    (F64([NAN, INF, -INF]), F32([NAN, INF, -INF])),
    (I64([5, -7]), I32([5, -7])), (I64([5]), I32([4])), (I64([1, 2**31]), I32([1, 0])), (I64([-(2**31) - 1]), I32([0])),
    (I64([2**31 - 1, -(2**31)]), I32([2**31 - 1, -(2**31)])),
    (F64([1, 2.5]), I8([1, 2])), (F64([1, 2]), I8([1, 2])), (BOOL([1, 0]), I8([1, 0])), (BOOL([1, 0]), I8([1, 1])),
    (F64([[1]]), F32([1])), (F64(NAN), F32(0)),
]  # fmt: skip


def test_each_difference_has_its_kind(recorded: Recorded) -> None:
    lines = []
    for wanted, output in DIFFERENCES:
        arrays = f"{wanted.tolist()} {wanted.dtype}, {output.tolist()} {output.dtype}"
        lines.append(f"{arrays}: {told(against_float((wanted,), (output,)))}")
    array = np.zeros(1)
    lines.append(f"two outputs: {told(against_float((array, array), (array,)))}")
    recorded.check("\n".join(lines))
    assert against_float((), (array,)) == PyTorchFinding(), "an unknown answer says nothing"


def test_the_users_limit_is_that_of_the_worst_output() -> None:
    right, wrong = np.array([1.0, 2.0]), np.array([1.1, 2.0])
    assert told(against_limit((right, right), (right, right), 200.0, "")) == ""
    assert told(against_limit((right, right), (right, wrong), 30.0, ", input set 2")) == (
        "accuracy: output 1, input set 2: SQNR 27.0 dB against PyTorch, float64, at least 30 wanted"
    )
    assert told(against_limit((right,), (wrong,), 26.9, "")) == ""
    other_shapes = ((right, np.zeros(0)), (np.zeros(3), np.zeros(0)))
    assert against_limit(*other_shapes, 30.0, "") == PyTorchFinding(), "these are compared elsewhere"


def test_an_input_that_the_program_narrows_has_to_fit() -> None:
    first = np.array([[1.0, 2.0]], np.float32)
    for second, message in (
        ([5, -7], ""),
        ([2**31 - 1, -(2**31)], ""),
        ([5, 2**40], "overflow: input 1 has 1099511627776 at [0, 1]; the program narrows it to int32"),
        ([-(2**31) - 1, 0], "overflow: input 1 has -2147483649 at [0, 0]; the program narrows it to int32"),
    ):
        assert told(integers_that_do_not_fit(narrowing(), (first, np.array([second], np.int64)))) == message


def test_the_programs_own_answer_is_right_and_outputs_in_another_order_are_seen() -> None:
    artifact, (first, second) = heads()
    assert against_example(artifact, (first, second)) == PyTorchFinding()
    assert told(against_example(artifact, (second, first))) == (
        "accuracy: outputs are in another order than in the model: "
        "output 0 is PyTorch's output 1, output 1 is PyTorch's output 0"
    )


def test_an_answer_that_roundings_do_not_explain_is_a_failure_if_the_rules_compute_it() -> None:
    """PyTorch's answer is another one: the program computes what it says, which is not the model."""
    artifact, right = heads()
    unlike = (artifact.quantised[0] + np.float32(1.0), artifact.quantised[1])
    message = told(against_example(dataclasses.replace(artifact, quantised=unlike), right))
    assert message.startswith("accuracy: output 0 at [0, 0]: PyTorch's quantised module answers")
    assert re.search(r"roundings explain at most .* \(SQNR -?[0-9.]+ dB\)", message)


def test_an_answer_that_the_rules_do_not_compute_is_a_note_about_the_rules() -> None:
    artifact, (first, second) = heads()
    step = np.diff(np.unique(np.concatenate([first.ravel(), second.ravel()]))).min()
    other = first.copy()
    other[0, 0] += step
    unlike = (artifact.quantised[0] + np.float32(1.0), artifact.quantised[1])
    assert told(against_example(dataclasses.replace(artifact, quantised=unlike), (other, second))) == (
        "output 0 is far from PyTorch's, and its bound does not hold for the program either: a rule in "
        "lowering/oracle/bounds may be wrong"
    )


def test_of_a_program_without_pytorchs_answers_nothing_is_said() -> None:
    """A .pte that was lowered elsewhere; and one whose answers are known in part."""
    artifact, (first, second) = heads()
    unknown = dataclasses.replace(artifact, quantised=(), floating=())
    assert against_example(unknown, (second, first)) == PyTorchFinding()
    part = dataclasses.replace(artifact, quantised=artifact.quantised[:1])
    assert against_example(part, (second, first)) == PyTorchFinding()
    no_bounds = dataclasses.replace(artifact, quantised=(artifact.quantised[0] + np.float32(1), second), allowed=())
    assert against_example(no_bounds, (first, second)) == PyTorchFinding()


def test_what_has_no_bound_and_what_is_equal_is_not_too_far() -> None:
    """The same infinity and the same NaN are equal; and where no bound is known, any number may be right."""
    artifact, (first, second) = heads()
    equal, unlike = first.copy(), first.copy()
    equal[0, 1], equal[0, 3] = np.nan, np.inf
    unlike[0, 2:5] += 1
    bound = artifact.allowed[0].copy()
    bound[0, 2:5] = np.inf
    without = dataclasses.replace(artifact, floating=(), quantised=(equal, second))
    assert against_example(without, (equal, second)) == PyTorchFinding()
    allowing = dataclasses.replace(artifact, quantised=(unlike, second), allowed=(bound, artifact.allowed[1]))
    assert against_example(allowing, (first, second)) == PyTorchFinding()
    bound[0, 3] = 0.0
    message = told(against_example(allowing, (first, second)))
    assert message.startswith("accuracy: output 0 at [0, 3]: PyTorch's quantised module answers")
    assert artifact.floating, "whose answer is finite, as the program's is"
    message = told(against_example(dataclasses.replace(artifact, quantised=(equal, second)), (first, second)))
    assert message.startswith("accuracy: output 0 at [0, 1]: PyTorch's quantised module answers nan, the program")


def test_a_float_program_is_held_against_the_float_module() -> None:
    """Its own answer is one of roundings around what the rules compute, and no exact one."""
    artifact, (answer,) = floating()
    assert against_example(artifact, (answer,)) == PyTorchFinding()
    unlike = dataclasses.replace(artifact, floating=(artifact.floating[0] + 1,))
    assert told(against_example(unlike, (answer,))).startswith("accuracy: output 0 at [0, 0]: PyTorch's float module")
    finding = against_example(unlike, (answer + np.float32(0.5),))
    assert (finding.failure, len(finding.notes)) == (None, 1)


def answered(module: torch.nn.Module, *example: torch.Tensor, on_cpu: bool = False) -> tuple[Artifact, Any]:
    """A program, and its answer to the example inputs."""
    method = dataclasses.replace(from_module(module.eval(), example).methods["forward"], on_cpu=on_cpu)
    artifact = lower(TorchModel("net", {"forward": method}), EthosU.parse("ethos-u55-128"))
    return artifact, Reference(artifact).run(artifact.example_inputs).outputs


@functools.cache
def floating() -> tuple[Artifact, tuple[np.ndarray, ...]]:
    """A program on the CPU."""
    torch.manual_seed(0)
    return answered(torch.nn.Linear(16, 8), torch.linspace(-1, 1, 16).reshape(1, 16), on_cpu=True)


@functools.cache
def heads() -> tuple[Artifact, tuple[np.ndarray, ...]]:
    """A program with two outputs of one form."""
    torch.manual_seed(0)
    two = keeping(lambda self, x: (self.a(x), self.b(x)), a=torch.nn.Linear(8, 24), b=torch.nn.Linear(8, 24))
    return answered(two, torch.linspace(-1, 1, 8).reshape(1, 8))


@functools.cache
def narrowing() -> Artifact:
    """A program with an input of float32 and one of int64, which it makes int32 of."""
    return answered(module_of(lambda x, y: (x * 2, y > 0)), torch.tensor([[1.0, 2.0]]), torch.tensor([[1, 2]]))[0]


STEP = 0.05


def answers(count: int, size: int, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [STEP * random.integers(-100, 100, (1, size)).astype(np.float32) for _ in range(count)]


def noisy(arrays: list[np.ndarray], steps: int, seed: int = 1) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [(array + STEP * random.integers(-steps, steps + 1, array.shape)).astype(np.float32) for array in arrays]


@pytest.mark.parametrize("size", [16, 100, 1000])
@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("order", [(1, 0), (1, 2, 0), (0, 2, 1), (3, 1, 2, 0)])
def test_another_order_is_found(size: int, steps: int, order: tuple[int, ...]) -> None:
    wanted = answers(len(order), size)
    outputs = noisy([wanted[at] for at in order], steps)
    assert permutation(wanted, outputs, [STEP] * len(order)) == order
    assert permutation(wanted, outputs, [0.0] * len(order)) == order


@pytest.mark.parametrize("size", [1, 2, 4, 16, 100])
@pytest.mark.parametrize("steps", [0, 1, 5, 30, 100, 1000])
def test_the_right_order_is_never_called_wrong(size: int, steps: int) -> None:
    """Even where the roundings are larger than the answers."""
    for seed in range(200):
        wanted = answers(3, size, seed)
        assert permutation(wanted, noisy(wanted, steps, seed + 1000), [STEP] * 3) is None


@pytest.mark.parametrize(("part", "expected"), [(0.192, True), (0.208, False)])
def test_an_order_is_told_where_chance_explains_it_with_less_than_one_in_a_billion(part: float, expected: bool) -> None:
    """r**((n - 1) / 2) for 16 values, each `part` of the way back to the model's order: r = (part / (1 - part))**2."""
    wanted = [np.zeros((1, 16), np.float64), np.arange(1.0, 17.0).reshape(1, 16)]
    outputs = [other + part * (array - other) for array, other in zip(wanted, wanted[::-1], strict=True)]
    chance = (part / (1 - part)) ** 15
    assert (chance < 1e-9) == expected
    assert permutation(wanted, outputs, [1e-6] * 2) == ((1, 0) if expected else None)


A, B = answers(2, 100)
ONE, NINE = np.full((1,), 1.0, np.float32), np.full((1,), 9.0, np.float32)
CONSTANTS = [np.full((1, 100), value, np.float32) for value in (1.0, 2.0)]
CORNERS = [np.array([0.0, 1.0]), np.array([5.0, 9.0])]
WITH_NAN, WITH_INF = A.copy(), B.copy()
WITH_NAN[0, 3], WITH_INF[0, 7] = NAN, INF
ORDERS: dict[str, tuple[list[np.ndarray], list[np.ndarray], float, tuple[int, ...] | None]] = {
    "single numbers beside others": ([A, B, ONE, NINE], [B, A, NINE, ONE], STEP, (1, 0, 2, 3)),
    "heads that differ by a step, which roundings swap": ([A, A + STEP], [A + STEP, A], STEP, None),
    "heads that differ by a constant": ([A, A + 10 * STEP], [A + 10 * STEP, A], STEP, None),
    "constants": (CONSTANTS, CONSTANTS[::-1], STEP, None),
    "other forms": ([A, B.reshape(10, 10)], [B, A.reshape(10, 10)], STEP, None),
    "truth values": ([A > 0, B > 0], [B > 0, A > 0], 0.0, None),
    "NaN and infinity in order": ([WITH_NAN, WITH_INF], [WITH_NAN, WITH_INF], STEP, None),
    "NaN and infinity in another order": ([WITH_NAN, WITH_INF], [WITH_INF, WITH_NAN], STEP, (1, 0)),
    "two outputs that are one of PyTorch's": ([A, B], [B, B], STEP, None),
    "a box's corners, a few steps from their own": (CORNERS, CORNERS[::-1], 1e-9, (1, 0)),
    "a box's corners, with larger steps": (CORNERS, CORNERS[::-1], 0.1, None),
}


@pytest.mark.parametrize("what", ORDERS)
def test_an_order_is_told_where_nothing_else_explains_it(what: str) -> None:
    wanted, outputs, step, order = ORDERS[what]
    assert permutation(wanted, outputs, [step] * len(wanted)) == order


def test_an_integer_that_becomes_a_float_has_no_limits_to_fit() -> None:
    artifact, _ = answered(module_of(lambda x: x.to(torch.float32) * 2), torch.tensor([[1, 2]]), on_cpu=True)
    casts = [call for call in artifact.plan.instructions if isinstance(call, KernelCall) and "_to_dim" in call.operator]
    assert {str(artifact.plan.tensor(call.args[-1]).dtype) for call in casts} == {"float32"}
    assert integers_that_do_not_fit(artifact, (np.array([[2**40, 1]], np.int64),)) == PyTorchFinding()


INPUT = np.arange(4, dtype=np.float32)


def accuracy_of(expected: np.ndarray, output: np.ndarray) -> Accuracy:
    artifact = Artifact("", "model", None, b"", (), example_inputs=(INPUT,), floating=(expected,))
    (accuracy,) = accuracies(artifact, (INPUT.copy(),), (output,))
    return accuracy


SPECIAL = np.array([1.0, NAN, INF, -INF], np.float32)
TENTH = np.array([[3.0, -4.0], [0.0, 0.0]])
ZEROS = np.zeros(3)
CASES: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "an error of a tenth is 20 dB": (TENTH, (TENTH + np.array([[0.0, 0.0], [0.3, -0.4]])).astype(np.float32)),
    "equal answers have no noise, even where they are no numbers": (SPECIAL, SPECIAL.copy()),
    # The cosine is of the elements that are finite in both.
    "NaN has an infinite error": (np.array([1.0, 2.0]), np.array([1.0, NAN])),
    "infinity has an infinite error": (np.array([1.0, 2.0]), np.array([1.0, INF])),
    "nothing can be said of zeros": (ZEROS, ZEROS),
    "zeros with an error": (ZEROS, np.ones(3)),
    "a scalar": (np.array(2.0), np.array(1.5, np.float32)),
    "indices": (np.arange(20), np.where(np.arange(20) < 14, np.arange(20), 0)),
    "equal indices": (np.arange(20), np.arange(20)),
    "truth values": (np.array([True, True]), np.array([True, False])),
    "an error that points away has a negative cosine": (np.array([1.0, 2.0]), np.array([-1.0, -2.0])),
}


def test_an_error_is_told_in_numbers_and_in_words(recorded: Recorded) -> None:
    def in_lines(accuracy: Accuracy) -> list[str]:
        values = (f"{value:.6g}" if isinstance(value, float) else str(value) for value in vars(accuracy).values())
        return [*map("{}: {}".format, vars(accuracy), values), accuracy_text(accuracy)]

    recorded.check({what: in_lines(accuracy_of(*case)) for what, case in CASES.items()})


def test_float_is_known_for_the_example_inputs_alone() -> None:
    artifact = Artifact("", "model", None, b"", (), example_inputs=(INPUT,), floating=(INPUT,))
    assert len(accuracies(artifact, (INPUT,), (INPUT,))) == 1
    for floating, inputs, outputs in (
        ((INPUT,), (INPUT + 1,), (INPUT,)),
        ((INPUT,), (), (INPUT,)),
        ((INPUT,), (INPUT,), (INPUT, INPUT)),
        ((INPUT,), (INPUT,), (INPUT[:3],)),
        ((INPUT[:0],), (INPUT,), (INPUT[:0],)),
        ((), (INPUT,), (INPUT,)),
    ):
        assert accuracies(dataclasses.replace(artifact, floating=floating), inputs, outputs) == ()
