"""The user's module and inputs stay as they are: a module that changes itself gives what its first call gives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.tests.conftest import U55
from ethos_hil.lowering.user_code.module_changes import changes, copy_module


def counter() -> nn.Module:
    """Adds the number of calls, which it keeps in a buffer."""

    def step(module: Any, x: Tensor) -> Tensor:
        module.n.add_(1.0)
        return x + module.n

    return keeping(step, n=torch.zeros(1, 4))


def attribute() -> nn.Module:
    """Adds the number of calls, which it keeps in Python."""

    def step(module: Any, x: Tensor) -> Tensor:
        module.calls += 1
        return x + module.calls

    module: Any = keeping(step)
    module.calls = 0
    return module


def own_tensor() -> nn.Module:
    """Adds the number of calls, which it keeps in a tensor that is not a buffer."""

    def step(module: Any, x: Tensor) -> Tensor:
        module.total = module.total + 1
        return x + module.total

    module: Any = keeping(step)
    module.total = torch.zeros(1, 4)
    return module


def in_place() -> nn.Module:
    """Changes its input."""
    return module_of(lambda x: x.add_(1.0) * 2)


def returns_its_buffer() -> nn.Module:
    """Gives out the buffer that it changes."""

    def step(module: Any, x: Tensor) -> Tensor:
        module.n.add_(x)
        return module.n

    return keeping(step, n=torch.zeros(1, 4))


X = ((0.1, 0.2, 0.3, 0.4),)


def lowered_answers(module: nn.Module, cache: Cache) -> tuple[Artifact, Tensor]:
    x = torch.tensor(X)
    artifact = lower(from_module(module, (x,), [(x,), (x + 1,)]), U55, cache=cache)
    assert torch.equal(x, torch.tensor(X)), "the user's input was changed"
    return artifact, x


@pytest.mark.parametrize("kind", [counter, attribute, own_tensor, in_place, returns_its_buffer])
def test_the_answers_are_those_of_the_first_call(kind: Callable[[], nn.Module], cache: Cache) -> None:
    expected = kind()(torch.tensor(X)).detach().numpy().copy()
    module = kind()
    for _ in range(2):  # a second lowering of the same module starts from the same state
        artifact, x = lowered_answers(module, cache)
        np.testing.assert_array_equal(artifact.example_inputs[0], x.numpy())
        np.testing.assert_allclose(artifact.floating[0], expected, rtol=1e-6)
        np.testing.assert_allclose(artifact.quantised[0], expected, atol=np.ptp(expected) / 10)
    assert changes(kind().eval(), module) == ()


def keeps() -> nn.Module:
    """Answers alike in each call, and keeps what it has seen."""

    def step(module: Any, x: Tensor) -> Tensor:
        module.seen.append(tuple(x.shape))
        return x * 2

    module: Any = keeping(step)
    module.seen = []
    return module


def counts_outside() -> nn.Module:
    calls: list[int] = []

    def count(x: Tensor) -> Tensor:
        calls.append(1)
        return x + len(calls)

    return module_of(count)


@pytest.mark.parametrize(
    ("kind", "changed", "steady"),
    [
        (counter, ("n",), False), (attribute, ("calls",), False), (own_tensor, ("total",), False),
        (returns_its_buffer, ("n",), False), (keeps, ("seen",), True), (counts_outside, (), False),
        (lambda: nn.Linear(4, 4), (), True),
    ],
)  # fmt: skip
def test_what_a_call_changes_is_named(kind: Callable[[], nn.Module], changed: tuple[str, ...], steady: bool) -> None:
    method = from_module(nn.Sequential(kind()), (torch.tensor(X),)).methods["forward"]
    assert (method.changed, method.steady) == (tuple(f"0.{name}" for name in changed), steady)
    assert (method.fresh is method.module) == (not changed)


def test_a_tensor_that_was_computed_with_gradients_is_copied_by_its_values() -> None:
    class Computed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1, 4))
            self.scaled = self.weight * 2  # torch refuses to copy it

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scaled

    module = Computed()
    other = copy_module(module, "computed")
    assert isinstance(other, Computed)
    assert other.weight is not module.weight
    assert other.scaled is not module.scaled
    assert torch.equal(other.scaled, module.scaled)


def test_a_module_that_refuses_to_be_copied_is_an_error_that_says_why() -> None:
    class Locked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    with pytest.raises(UsageError, match=r"the module Locked cannot be copied: TypeError: cannot pickle") as caught:
        from_module(Locked(), (torch.tensor(X),))
    assert "__deepcopy__" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("outputs", "text"),
    [(lambda x: (), "returns no outputs"), (lambda x: None, "output 0 of forward is None"),
     (lambda x: (x, None), "output 1 of forward is None"), (lambda x: {"a": x, "b": [None]}, "output 1 of forward")],
)  # fmt: skip
def test_outputs_that_are_none_are_refused_by_name(outputs: Callable[[Tensor], object], text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        from_module(module_of(outputs), (torch.tensor(X),), label="net.py:net")
    assert caught.value.exit_status == 2
    assert caught.value.message.startswith("net.py:net: ")


def test_nan_and_infinity_of_the_models_own_precision_are_kept() -> None:
    """exp(100) is infinite in float32 and finite in float64."""
    from ethos_hil.lowering.upstream.pytorch_answers import evaluate_in_double

    inputs = (torch.tensor([1.0, 100.0]),)
    module = module_of(lambda x: (torch.exp(x), torch.exp(x) / torch.exp(x)))
    exported = torch.export.export(module, inputs).module(check_guards=False)
    power, quotient = evaluate_in_double(exported, inputs)
    assert power.dtype == np.float64
    assert np.isfinite(power).tolist() == [True, False]
    assert np.isnan(quotient).tolist() == [False, True]


def total(start: float = 0.0) -> nn.Module:
    def step(module: Any, x: Tensor) -> Tensor:
        module.n.add_(x)
        return module.n * 2

    return keeping(step, n=torch.full((1, 4), start))


def on_cpu(module: nn.Module) -> TorchModel:
    """A model of state that stays on the CPU."""
    method = from_module(module, (torch.tensor(X),)).methods["forward"]
    return TorchModel("total", {"forward": replace(method, on_cpu=True)})


def test_a_buffer_that_the_program_does_not_keep_is_named(cache: Cache) -> None:
    artifact = lower(on_cpu(total(5.0)), U55, cache=cache)
    (sentence,) = artifact.lost
    assert sentence.startswith("the program starts with zeros in buffer n")
    assert artifact.frozen == ()


@pytest.mark.parametrize(("kind", "name"), [(attribute, "calls"), (own_tensor, "total")])
def test_state_of_python_that_export_froze_is_named(kind: Callable[[], nn.Module], name: str, cache: Cache) -> None:
    artifact, _ = lowered_answers(kind(), cache)
    assert (artifact.lost, artifact.frozen) == ((), (f"its attribute {name}",))


def test_a_reference_keeps_state_from_call_to_call(cache: Cache) -> None:
    from ethos_hil.lowering.oracle.reference import Reference

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
    import ethos_hil.lowering.oracle.bounds.program as worst_case

    artifact, _ = lowered_answers(nn.Linear(4, 4), cache)
    assert len(worst_case.worst_case(artifact)) == 1
    monkeypatch.setattr(worst_case, "MOST_ELEMENTS", 8)
    assert worst_case.worst_case(artifact) == ()
