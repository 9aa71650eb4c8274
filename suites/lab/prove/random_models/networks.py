"""Random networks of the operators that the suites declare (suites/ops). Each depends on its seed alone.

A network starts with an operator's case and its inputs. What follows is drawn until it takes the last value: an
operator whose other inputs are earlier values, the last value combined with an earlier one, or another layout of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.declared.modules import Function, random_inputs
from ethos_hil.suites.declare.case import Case
from ethos_hil.suites.lab.coverage import declared
from ethos_hil.suites.trial.build import module_of

LARGEST = 8192
"""Elements of a value that a network still reads."""
_TRIES = 60
_REFUSED = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, NotImplementedError)
"""What PyTorch raises where an operator does not take a value."""
COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "concat": lambda a, b: torch.cat([a, b], 1),
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "flatten": lambda x: x.flatten(1),
    "tokens": lambda x: x.flatten(2).transpose(1, 2),
    "swap": lambda x: x.transpose(-1, -2),
    "halves": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "every second": lambda x: x[..., ::2],
    "mean": lambda x: x.mean(-1),
    "x - maximum": lambda x: x - x.amax(1, keepdim=True),
    "gate": lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)),
}


@dataclass(frozen=True)
class NetworkStep:
    """One layer of a network.

    Attributes:
        name: for people.
        module: computes the result.
        reads: which earlier values it reads.
    """

    name: str
    module: nn.Module
    reads: tuple[int, ...]


class RandomNetwork(nn.Module):
    """A network of drawn layers, each of which reads earlier values."""

    def __init__(self, steps: list[NetworkStep], outputs: tuple[int, ...]) -> None:
        super().__init__()
        self.steps = steps
        self.outputs = outputs
        self.used = nn.ModuleList(step.module for step in steps)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step in self.steps:
            values.append(step.module(*(values[at] for at in step.reads)))
        return tuple(values[at] for at in self.outputs)


@dataclass(frozen=True)
class Drawn:
    """A random network.

    Attributes:
        seed: what it depends on.
        module: the network.
        inputs: its example inputs.
    """

    seed: int
    module: RandomNetwork
    inputs: tuple[Tensor, ...]

    @property
    def recipe(self) -> str:
        """The shapes of the inputs and the layers, as one line."""
        steps = "; ".join(f"{step.name}{list(step.reads)}" for step in self.module.steps)
        shapes = " ".join(str(list(tensor.shape)) for tensor in self.inputs)
        return f"{shapes}: {steps} -> {list(self.module.outputs)}"


def network(seed: int) -> Drawn:
    """Return the network of a seed: always the same one."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    values: list[Tensor] = []
    steps: list[NetworkStep] = []
    while not steps:  # some cases alone are larger than a network may be
        name, case = _pick(rng)
        inputs, _ = random_inputs(case.inputs)
        values = list(inputs)
        _append(NetworkStep(name, module_of(case), tuple(range(len(inputs)))), values, steps)
    for _ in range(int(rng.integers(2, 8))):
        for _ in range(_TRIES if _is_read(values[-1]) else 0):
            if _append(_drawn(rng, values), values, steps):
                break
    last = len(values) - 1
    others = [at for at in range(len(inputs), last) if rng.random() < 0.25][:2]
    return Drawn(seed, RandomNetwork(steps, (*others, last)).eval(), tuple(inputs))


@cache
def _cases() -> tuple[tuple[tuple[str, Case], ...], ...]:
    """The cases of each operator that is on an NPU in the quantised profiles, with their names."""
    operators = (operator for operator in declared() if not operator.on_cpu)
    return tuple(
        tuple((f"{operator.name}_{case.name}", case) for case in operator.cases if not case.on_cpu)
        for operator in operators
    )


def _pick(rng: np.random.Generator) -> tuple[str, Case]:
    """Draw an operator, all alike, and one of its cases."""
    operators = [cases for cases in _cases() if cases]
    cases = operators[int(rng.integers(len(operators)))]
    return cases[int(rng.integers(len(cases)))]


def _drawn(rng: np.random.Generator, values: list[Tensor]) -> NetworkStep:
    """Draw a layer of the last value, which it may not take."""
    last = len(values) - 1
    alike = [at for at, value in enumerate(values) if value.shape == values[-1].shape and _is_read(value)]
    kind = rng.random()
    if kind < 0.15:
        name = str(rng.choice(list(COMBINED)))
        return NetworkStep(name, Function(COMBINED[name]), (last, int(rng.choice(alike))))
    if kind < 0.25:
        name = str(rng.choice(list(LAYOUTS)))
        return NetworkStep(name, Function(LAYOUTS[name]), (last,))
    if kind < 0.5 and values[-1].dim() > 1:
        layer = _weighted(rng, values[-1].shape)
        return NetworkStep(" ".join(str(layer).split()), layer, (last,))
    name, case = _pick(rng)
    return NetworkStep(name, module_of(case), (last, *(int(rng.choice(alike)) for _ in case.inputs[1:])))


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


def _append(step: NetworkStep, values: list[Tensor], steps: list[NetworkStep]) -> bool:
    """Add a layer and its result, in evaluation mode. Return whether it takes the values that it reads."""
    try:
        with torch.no_grad():
            result = step.module.eval()(*(values[at] for at in step.reads))
    except _REFUSED:
        return False
    if not isinstance(result, Tensor) or not 0 < result.numel() <= LARGEST or not bool(result.isfinite().all()):
        return False
    values.append(result)
    steps.append(step)
    return True


def _is_read(value: Tensor) -> bool:
    """Whether a layer may read a value: a float, which is quantised."""
    return value.dtype == torch.float32
