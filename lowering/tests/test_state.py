"""State: the user's module and inputs stay as they are, a module that changes itself gives what its first call gives,
and buffers that it writes are state of the program: what its calls leave is what the next ones meet.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ethos_hil.lowering.oracle.bounds.program as worst_case
from ethos_hil.base.errors import CompileError, UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.pte_model import Tensor as Values
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.oracle.bounds.kernels import PlanMemory
from ethos_hil.lowering.oracle.bounds.value import RoundingPolicy
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.tests.conftest import U55, refusals
from ethos_hil.lowering.upstream import state
from ethos_hil.lowering.upstream.pytorch_answers import evaluate_in_double
from ethos_hil.lowering.upstream.state import LiftedState
from ethos_hil.lowering.user_code.module_changes import changes, copy_module

X = ((0.1, 0.2, 0.3, 0.4),)


def count(module: Any, x: Tensor) -> Tensor:
    module.n.add_(1.0)
    return x + module.n


def count_in_python(module: Any, x: Tensor) -> Tensor:
    module.n = module.n + 1
    return x + module.n


def give_out(module: Any, x: Tensor) -> Tensor:
    module.n.add_(x)
    return module.n


def remember(module: Any, x: Tensor) -> Tensor:
    module.n.append(tuple(x.shape))
    return x * 2


def add_up(module: Any, x: Tensor) -> Tensor:
    module.n.add_(x)
    return module.n * 2


def own_tensor() -> nn.Module:
    """Keeps the number of calls in a tensor that is not a buffer."""
    module: Any = keeping(count_in_python)
    module.n = torch.zeros(1, 4)
    return module


def counts_outside() -> nn.Module:
    calls: list[int] = []
    return module_of(lambda x: x + (calls.append(1) or len(calls)))  # type: ignore[func-returns-value]


KINDS: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "a buffer": (lambda: keeping(count, n=torch.zeros(1, 4)), True),
    "an attribute": (lambda: keeping(count_in_python, n=0), True),
    "a tensor of its own": (own_tensor, True),
    "a buffer that it gives out": (lambda: keeping(give_out, n=torch.zeros(1, 4)), True),
    "what it has seen": (lambda: keeping(remember, n=[]), True),
    "its input": (lambda: module_of(lambda x: x.add_(1.0) * 2), False),
    "something outside": (counts_outside, False),
    "nothing": (lambda: nn.Linear(4, 4), False),
}
"""What a model changes, how it is made, and whether it is its `n`."""


def count_on_from(net: Any, x: Tensor) -> Tensor:
    net.n.add_(x)
    y: Tensor = net.layer(net.n)
    return y


def count_on() -> nn.Module:
    torch.manual_seed(0)
    return keeping(count_on_from, layer=nn.Linear(4, 4), n=torch.full((1, 4), 5.0))


def lowered_answers(module: nn.Module, cache: Cache) -> tuple[Artifact, Tensor]:
    x = torch.tensor(X)
    artifact = lower(from_module(module, (x,), [(x,), (x + 1,)]), U55, cache=cache)
    assert torch.equal(x, torch.tensor(X)), "the user's input was changed"
    return artifact, x


@pytest.mark.parametrize(
    "what",
    ["a buffer", "its input", *(pytest.param(what, marks=pytest.mark.proof) for what in list(KINDS)[1:4])],
)
def test_the_answers_are_those_of_the_first_call(what: str, cache: Cache) -> None:
    kind, _ = KINDS[what]
    expected = kind()(torch.tensor(X)).detach().numpy().copy()
    module = kind()
    for _ in range(2):  # a second lowering of the same module starts from the same state
        artifact, x = lowered_answers(module, cache)
        np.testing.assert_array_equal(artifact.example_inputs[0], x.numpy())
        np.testing.assert_allclose(artifact.floating[0], expected, rtol=1e-6)
        np.testing.assert_allclose(artifact.quantised[0], expected, atol=np.ptp(expected) / 10)
    assert changes(kind().eval(), module) == ()


@pytest.mark.parametrize("what", KINDS)
def test_what_a_call_changes_is_named(what: str) -> None:
    kind, changed = KINDS[what]
    method = from_module(nn.Sequential(kind()), (torch.tensor(X),)).methods["forward"]
    steady = what in ("what it has seen", "its input", "nothing")
    assert (method.changed, method.steady) == (("0.n",) if changed else (), steady)
    assert (method.fresh is method.module) == (not changed)


def test_a_tensor_that_was_computed_with_gradients_is_copied_by_its_values() -> None:
    module: Any = keeping(add_up)
    module.weight = nn.Parameter(torch.ones(1, 4))
    module.scaled = module.weight * 2  # torch refuses to copy it
    other: Any = copy_module(module, "computed")
    assert other.weight is not module.weight
    assert other.scaled is not module.scaled
    assert torch.equal(other.scaled, module.scaled)


def test_a_module_that_refuses_to_be_copied_is_an_error_that_says_why() -> None:
    with pytest.raises(UsageError, match=r"the module _Keeps cannot be copied: TypeError: cannot pickle") as caught:
        from_module(keeping(add_up, lock=threading.Lock()), (torch.tensor(X),))
    assert "__deepcopy__" in str(caught.value.hint)


def test_a_module_without_outputs_is_refused(recorded: Recorded) -> None:
    functions = (lambda x: (), lambda x: None, lambda x: {"a": None, "b": [None]})
    ask = partial(from_module, example_inputs=(torch.tensor(X),), label="net.py:net")
    recorded.check(refusals(*(partial(ask, module_of(function)) for function in functions)))


def test_nan_and_infinity_of_the_models_own_precision_are_kept() -> None:
    """exp(100) is infinite in float32 and finite in float64."""
    inputs = (torch.tensor([1.0, 100.0]),)
    module = module_of(lambda x: (torch.exp(x), torch.exp(x) / torch.exp(x)))
    exported = torch.export.export(module, inputs).module(check_guards=False)
    power, quotient = evaluate_in_double(exported, inputs)
    assert power.dtype == np.float64
    assert np.isfinite(power).tolist() == [True, False]
    assert np.isnan(quotient).tolist() == [False, True]


def total(start: float = 0.0) -> nn.Module:
    return keeping(add_up, n=torch.full((1, 4), start))


def on_cpu(module: nn.Module) -> TorchModel:
    """A model of state that stays on the CPU."""
    method = from_module(module, (torch.tensor(X),)).methods["forward"]
    return TorchModel("total", {"forward": replace(method, on_cpu=True)})


def test_what_the_program_does_not_keep_is_named(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that starts with other values than the model's, and what export froze."""
    artifact = lower(on_cpu(total(5.0)), U55, cache=cache, as_upstream=True)
    assert artifact.lost == ("the program starts with zeros in buffer n, the model does not",)
    assert artifact.frozen == ()
    for what in ("an attribute", "a tensor of its own"):
        artifact, _ = lowered_answers(KINDS[what][0](), cache)
        assert (artifact.lost, artifact.frozen) == ((), ("its attribute n",))
    kept = state.keep_first_values

    def spoilt(program: Any) -> None:
        kept(program)
        program.state_dict["n"] = program.state_dict["n"] + 1

    monkeypatch.setattr("ethos_hil.lowering.lower.keep_first_values", spoilt)
    artifact = lower(on_cpu(total(6.0)), U55, cache=cache)
    assert artifact.lost == ("the program starts with other values in buffer n, the model does not",)


def shape_alone(net: Any, x: Tensor) -> tuple[Tensor, ...]:
    net.n = net.n * 0.5 + x * 0.5
    one = net.n.mean()
    return torch.zeros_like(net.n) + x, net.n.new_ones(4) * x, one.argmax(0), one.softmax(0) + x, net.n * 2


def test_a_result_that_depends_on_the_shape_of_state_alone_is_not_missed(cache: Cache) -> None:
    """Sees red: "output 0 depends on buffer n in the model, not in the program"."""
    artifact, _ = answers(keeping(shape_alone, n=torch.zeros(1, 4)), cache, calls=1)
    assert artifact.keeps_state
    assert artifact.lost == ()


@pytest.mark.parametrize("kind", ["on the CPU", "beside a delegate", "zeros"])
def test_state_starts_as_the_models_does(kind: str, cache: Cache) -> None:
    module = count_on() if kind == "beside a delegate" else total(0.0 if kind == "zeros" else 5.0)
    model = from_module(module, (torch.tensor(X),)) if kind == "beside a delegate" else on_cpu(module)
    artifact = lower(model, U55, cache=cache)
    written = [value.initial for value in artifact.plan.values if isinstance(value, Values) and value.initial]
    assert (artifact.lost, len(written)) == ((), 0 if kind == "zeros" else 1)
    assert bool(artifact.delegates) == (kind == "beside a delegate")
    run, eager = Reference(artifact).run((np.array(X, np.float32),), repeat=3), copy.deepcopy(module)
    for repeat in range(3):
        wanted = eager(torch.tensor(X))
        largest = np.abs(wanted.detach().numpy()).max()
        # The sum is exact; what the NPU computes of it is rounded to 8 bits.
        bound = largest / 32 if artifact.delegates else 0
        np.testing.assert_allclose(run.of(repeat).outputs[0], wanted.detach().numpy(), rtol=0, atol=bound)
    for index in artifact.plan.state:  # where the bound on the program's answer starts
        start = PlanMemory(artifact.plan, RoundingPolicy()).get(index).value
        np.testing.assert_array_equal(start, np.full((1, 4), 0.0 if kind == "zeros" else 5.0))


def test_a_reference_keeps_state_from_call_to_call(cache: Cache) -> None:
    artifact = lower(on_cpu(total()), U55, cache=cache)
    assert artifact.keeps_state
    assert artifact.lost == ()
    x = np.array(X, np.float32)
    run = Reference(artifact).run((x,), repeat=3)
    eager = total()
    for repeat in range(3):
        np.testing.assert_array_equal(run.of(repeat).outputs[0], eager(torch.tensor(X)).numpy())
    np.testing.assert_array_equal(Reference(artifact).run((x,)).outputs[0], run.of(0).outputs[0])


def test_a_large_program_has_no_bound(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact, _ = lowered_answers(nn.Linear(4, 4), cache)
    assert len(worst_case.worst_case(artifact)) == 1
    monkeypatch.setattr(worst_case, "MOST_ELEMENTS", 8)
    assert worst_case.worst_case(artifact) == ()


# --- Buffers of the quantised program.


def shift(module: Any, x: Tensor) -> Tensor:
    module.line.copy_(torch.cat([module.line[:, 1:], x[:, None]], 1))
    return module.line[:, 0] * 1.0


def delay() -> nn.Module:
    """Answers with the input of two calls before."""
    return keeping(shift, line=torch.zeros(1, 3, 4))


def write_around(net: Any, x: Tensor) -> Tensor:
    net.past.index_copy_(2, net.at, x[:, :, None])
    net.at.copy_((net.at + 1) % 3)
    return torch.relu(net.conv(net.past))[:, :, 0]


def ring() -> nn.Module:
    """A convolution over the last inputs, in a submodule's ring that is written at a moving place, which is int64."""
    torch.manual_seed(0)
    place = torch.zeros(1, dtype=torch.int64)
    return nn.Sequential(keeping(write_around, conv=nn.Conv1d(4, 6, 3), past=torch.zeros(1, 4, 3), at=place))


def count_by_three(module: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    module.n.copy_(module.n + 1 + 2)  # by two operators
    return x * 2, module.n + 0


def tally() -> nn.Module:
    """Counts its calls in int32, beside a float answer."""
    return keeping(count_by_three, n=torch.zeros(1, dtype=torch.int32))


def follow(net: Any) -> Tensor:
    y: Tensor = torch.tanh(net.layer(net.n))
    net.n.copy_(y)
    return y


def alone() -> nn.Module:
    """Takes nothing: what it answers follows from its state."""
    torch.manual_seed(0)
    return keeping(follow, layer=nn.Linear(4, 4), n=torch.zeros(1, 4))


def take_mean(net: Any, x: Tensor) -> Tensor:
    before = net.mean
    net.mean = net.mean * 0.5 + x * 0.5
    return net.mean - before


def attend(net: Any, x: Tensor) -> Tensor:
    heads = x.reshape(1, 2, 2, 1)
    net.seen = net.seen * 0.5 + functional.scaled_dot_product_attention(heads, heads, heads).flatten(1)
    seen: Tensor = net.seen
    return seen


def attentive() -> nn.Module:
    """Attention whose heads are brought into a row, in a model with state."""
    return keeping(attend, seen=torch.zeros(1, 4))


def behind_a_norm() -> nn.Module:
    """A mean that is assigned again in a module within; what is folded into weights before it is not state."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), keeping(take_mean, mean=torch.zeros(1, 4))).eval()


def inputs_of(module: nn.Module) -> tuple[Tensor, ...]:
    return () if hasattr(module, "layer") else (torch.tensor(X),)


def answers(module: nn.Module, cache: Cache, calls: int = 5) -> tuple[Artifact, list[tuple[np.ndarray, ...]]]:
    artifact = lower(from_module(module, inputs_of(module)), U55, cache=cache)
    run = Reference(artifact).run(tuple(tensor.numpy() for tensor in inputs_of(module)), repeat=calls)
    return artifact, [run.of(call).outputs for call in range(calls)]


@pytest.mark.parametrize("kind", [delay, ring, alone, behind_a_norm, attentive])
def test_each_call_answers_as_the_model_does(kind: Callable[[], nn.Module], cache: Cache) -> None:
    module = kind()
    artifact, calls = answers(module, cache)
    assert artifact.keeps_state
    assert (artifact.lost, artifact.frozen) == ((), ())
    eager = copy.deepcopy(module)
    wanted = [eager(*inputs_of(module)).detach().numpy() for _ in calls]
    assert len({array.tobytes() for array in wanted}) > 1, "this model shows no state"
    largest = max(np.abs(array).max() for array in wanted)
    for call, outputs in enumerate(calls):
        # A few roundings to 8 bits, which do not add up from call to call.
        np.testing.assert_allclose(outputs[0], wanted[call], atol=largest / 16)


def test_what_is_kept_is_not_rounded_again_in_each_call_and_integers_are_kept_exactly(cache: Cache) -> None:
    _, calls = answers(delay(), cache, calls=8)
    assert [bool(outputs[0].any()) for outputs in calls[:3]] == [False, False, True]
    assert len({outputs[0].tobytes() for outputs in calls[2:]}) == 1
    _, calls = answers(tally(), cache)
    assert [int(outputs[1][0]) for outputs in calls] == [3, 6, 9, 12, 15]


def test_without_the_lift_the_state_is_lost_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiftedState, "of", lambda *_: None)
    artifact, _ = answers(ring(), Cache(tmp_path), calls=1)
    less = "the program computes the next value of buffer {} from less than the model does"
    assert artifact.lost == (less.format("0.past"), less.format("0.at"))


def test_a_method_with_state_cannot_be_delegated_whole(cache: Cache) -> None:
    with pytest.raises(CompileError, match="forward keeps state, and cannot be delegated whole") as caught:
        lower(from_module(delay(), (torch.tensor(X),)), U55, whole=True, cache=cache)
    assert caught.value.hint == "leave out --whole"
