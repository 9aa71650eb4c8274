"""Random networks of the operators that the suites declare (suites/ops). Each depends on its seed alone.

A network starts with an operator's case and its inputs. What follows is drawn until it takes the last value: an
operator whose other inputs are earlier values, the last value combined with an earlier one, with an input of another
type or with what earlier calls left in a buffer, or another layout of it. Inputs lie in memory in drawn orders.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.options import Scheme
from ethos_hil.harness.declared.modules import Function, random_inputs
from ethos_hil.lowering.model.torch_model import STATEFUL_CALLS
from ethos_hil.lowering.testing.function_module import keeping
from ethos_hil.lowering.testing.memory_order import in_some_order
from ethos_hil.suites.declare.case import Case
from ethos_hil.suites.lab.coverage import declared
from ethos_hil.suites.lab.prove.random_models.layers import COMBINED, INTEGERS, LAYOUTS, OWN_INPUTS, STATES
from ethos_hil.suites.lab.prove.random_models.scheme import DrawnScheme
from ethos_hil.suites.trial.build import module_of

LARGEST = 8192
"""Elements of a value that a network still reads."""
EXECUTIONS = 3
"""Of a network with state: as many calls in a row."""
_TRIES = 60
_REFUSED = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, NotImplementedError)
"""What PyTorch raises where an operator does not take a value."""


@dataclass(frozen=True)
class NetworkStep:
    """One layer of a network.

    Attributes:
        name: for people.
        module: computes the result.
        reads: which earlier values it reads.
        inputs: how many inputs of the network it reads after them; they are values, too, from then on.
    """

    name: str
    module: nn.Module
    reads: tuple[int, ...]
    inputs: int = 0


class RandomNetwork(nn.Module):
    """A network of drawn layers, each of which reads earlier values."""

    def __init__(self, steps: Sequence[NetworkStep], outputs: tuple[int, ...]) -> None:
        super().__init__()
        self.steps = tuple((step.reads, step.inputs) for step in steps)
        self.outputs = outputs
        self.layers = nn.ModuleList(step.module for step in steps)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values: list[Tensor] = []
        rest = list(inputs)
        for (reads, own), layer in zip(self.steps, self.layers, strict=True):
            given, rest = rest[:own], rest[own:]
            values += [*given, layer(*(values[at] for at in reads), *given)]
        return tuple(values[at] for at in self.outputs)


@dataclass(frozen=True)
class Drawn:
    """A random network.

    Attributes:
        seed: what it depends on.
        module: the network.
        inputs: its example inputs.
        steps: its layers.
        kind: how it is quantised.
        wide: the layers that have 16 bits where that is mixed.
    """

    seed: int
    module: RandomNetwork
    inputs: tuple[Tensor, ...]
    steps: tuple[NetworkStep, ...]
    kind: DrawnScheme
    wide: tuple[str, ...]

    @property
    def scheme(self) -> Scheme:
        """How it is quantised, but for single layers."""
        return "a8w8" if self.kind == "mixed" else self.kind

    @property
    def int16(self) -> tuple[str, ...]:
        """The layers that have 16 bits though the scheme has 8."""
        return self.wide if self.kind == "mixed" else ()

    @property
    def executions(self) -> int:
        """How often it is called with its inputs: more than once where a call leaves something for the next."""
        return EXECUTIONS if any(step.name in STATES for step in self.steps) else 1

    @property
    def recipe(self) -> str:
        """Inputs with dtypes and strides, the layers, what of them has 16 bits, and the outputs, as one line."""
        steps = "; ".join(f"{step.name}{list(step.reads)}{'+' * step.inputs}" for step in self.steps)
        inputs = " ".join(_text(tensor) for tensor in self.inputs)
        scheme = f"{self.kind} {' '.join(self.int16)}".strip()
        return f"{scheme}: {inputs}: {steps} -> {list(self.module.outputs)}"


def _text(tensor: Tensor) -> str:
    strides = "" if tensor.is_contiguous() else f" strides {list(tensor.stride())}"
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}{strides}"


@dataclass
class _Draft:
    """A network that is being drawn.

    Attributes:
        values: of its inputs and layers, in the order of the layers.
        steps: its layers.
        inputs: its inputs.
        places: which values are results of layers.
    """

    values: list[Tensor] = field(default_factory=list)
    steps: list[NetworkStep] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def add(self, name: str, module: nn.Module, reads: Sequence[int] = (), given: Sequence[Tensor] = ()) -> bool:
        """Add a layer in evaluation mode with inputs of its own. Return whether it takes the values that it reads."""
        module.eval()
        try:
            with torch.no_grad():  # of a copy: the call may leave something in a buffer
                result = copy.deepcopy(module)(*(self.values[at] for at in reads), *given)
        except _REFUSED:
            return False
        if not isinstance(result, Tensor) or not 0 < result.numel() <= LARGEST or not bool(result.isfinite().all()):
            return False
        self.values += [*given, result]
        self.steps.append(NetworkStep(name, module, tuple(reads), len(given)))
        self.inputs += given
        self.places.append(len(self.values) - 1)
        return True


def network(seed: int, kind: DrawnScheme | None = None) -> Drawn:
    """Return the network of a seed: always the same one.

    Args:
        seed: any number.
        kind: how it is quantised; by default that is drawn, too. Nothing else depends on it.
    """
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    while not _stays_finite(drawn := _network(seed, rng, kind)):
        pass
    return drawn


def _stays_finite(drawn: Drawn) -> bool:
    """Whether a network has no NaN and no infinity in any of the calls that calibrate its state."""
    module = copy.deepcopy(drawn.module)
    calls = STATEFUL_CALLS if drawn.executions > 1 else 1
    values = (value for _ in range(calls) for value in module(*drawn.inputs))
    return all(bool(value.isfinite().all()) for value in values)


def _network(seed: int, rng: np.random.Generator, kind: DrawnScheme | None) -> Drawn:
    draft = _Draft()
    while not draft.steps:  # some cases alone are larger than a network may be
        name, case = _pick(rng)
        draft.add(name, module_of(case), given=[_laid_out(tensor, rng) for tensor in random_inputs(case.inputs)[0]])
    for _ in range(int(rng.integers(2, 8))):
        for _ in range(_TRIES if _is_read(draft.values[-1]) else 0):
            if _grow(rng, draft):
                break
    others = [at for at in draft.places[:-1] if rng.random() < 0.25][:2]
    outputs = (*others, draft.places[-1])
    if rng.random() < 0.3 and _is_read(draft.values[-1]):
        name = str(rng.choice(list(INTEGERS)))
        if draft.add(name, Function(INTEGERS[name]), (outputs[-1],)):
            outputs = (*outputs[rng.integers(2) :], draft.places[-1])  # beside what it is of, or alone
    drawn = get_args(DrawnScheme)[int(rng.integers(3))]
    # Of others, such as copies, nothing may be left to quantise.
    weighted = [at for at, step in enumerate(draft.steps) if any(True for _ in step.module.parameters())]
    wide = sorted(rng.choice(weighted, min(len(weighted), int(rng.integers(1, 3))), replace=False)) if weighted else []
    layers = tuple(f"layers.{at}" for at in wide)
    module = RandomNetwork(draft.steps, outputs).eval()
    return Drawn(seed, module, tuple(draft.inputs), tuple(draft.steps), kind or drawn, layers)


@cache
def _cases() -> tuple[tuple[tuple[str, Case], ...], ...]:
    """The cases of each operator that is on an NPU in the quantised profiles, by name; none of known defects."""
    operators = (operator for operator in declared() if not (operator.on_cpu or operator.defects))
    return tuple(
        tuple((f"{operator.name}_{case.name}", case) for case in operator.cases if not (case.on_cpu or case.defects))
        for operator in operators
    )


def _pick(rng: np.random.Generator) -> tuple[str, Case]:
    """Draw an operator, all alike, and one of its cases."""
    operators = [cases for cases in _cases() if cases]
    cases = operators[int(rng.integers(len(operators)))]
    return cases[int(rng.integers(len(cases)))]


def _grow(rng: np.random.Generator, draft: _Draft) -> bool:
    """Draw a layer of the last value. Return whether it takes that."""
    last, value = len(draft.values) - 1, draft.values[-1]
    alike = [at for at, other in enumerate(draft.values) if other.shape == value.shape and _is_read(other)]
    kind = rng.random()
    if kind < 0.12:
        name = str(rng.choice(list(COMBINED)))
        return draft.add(name, Function(COMBINED[name]), (last, int(rng.choice(alike))))
    if kind < 0.22:
        name = str(rng.choice(list(LAYOUTS)))
        return draft.add(name, Function(LAYOUTS[name]), (last,))
    if kind < 0.3 and value.dim():
        name = str(rng.choice(list(OWN_INPUTS)))
        own = OWN_INPUTS[name]
        (given,), _ = random_inputs([own.given(value.shape)])
        layer = own.layer(value.shape)
        module = layer if isinstance(layer, nn.Module) else Function(layer)
        return draft.add(name, module, (last,), [in_some_order(given, rng)])
    if kind < 0.36:
        name = str(rng.choice(list(STATES)))
        function, kept = STATES[name]
        return draft.add(name, keeping(function, kept=kept(value.shape)), (last,))
    if kind < 0.58 and value.dim() > 1:
        layer = _weighted(rng, value.shape)
        return draft.add(" ".join(str(layer).split()), layer, (last,))
    name, case = _pick(rng)
    return draft.add(name, module_of(case), (last, *(int(rng.choice(alike)) for _ in case.inputs[1:])))


def _laid_out(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    """Return an input in a drawn order of memory, sometimes with one more axis of size 1."""
    if tensor.dim() and rng.random() < 0.2:
        tensor = tensor.narrow(int(rng.integers(tensor.dim())), 0, 1)
    return in_some_order(tensor, rng)


def _weighted(rng: np.random.Generator, shape: torch.Size) -> nn.Module:
    """Draw a layer with weights that takes a value of a shape, which those of the suites' cases seldom do."""
    channels, out, stride = shape[1], int(rng.choice((4, 8, 12, 16))), int(rng.choice((1, 1, 2, 3)))
    if len(shape) != 4 or rng.random() < 0.1:
        return nn.Linear(shape[-1], out, bias=bool(rng.random() < 0.7))
    kind = rng.random()
    if kind < 0.2:
        return nn.ConvTranspose2d(channels, out, int(rng.integers(2, 5)), stride)
    kernel = int(rng.choice((1, 3, 3, 5)))
    if kind < 0.5:
        return nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels)
    convolution = nn.Conv2d(channels, out, kernel, stride, int(rng.choice((0, kernel // 2))))
    return nn.Sequential(convolution, nn.BatchNorm2d(out), nn.ReLU()) if rng.random() < 0.5 else convolution


def _is_read(value: Tensor) -> bool:
    """Whether a layer may read a value: a float, which is quantised."""
    return value.dtype == torch.float32
