"""Random networks of PyTorch layers. Each depends on its seed alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ethos_hil.suites.lab.conformance.random_graphs.dice import Dice
from ethos_hil.suites.lab.random_models.steps import NetworkStep, of_map
from ethos_hil.suites.lab.random_models.tokens import of_tokens

_TRIES = 40


class RandomNetwork(nn.Module):
    """A network of drawn layers, each of which reads earlier values."""

    def __init__(self, steps: list[NetworkStep], outputs: tuple[int, ...]) -> None:
        super().__init__()
        self.steps = steps
        self.outputs = outputs
        self.used = nn.ModuleList(module for step in steps for module in step.modules)

    def forward(self, first: Tensor) -> tuple[Tensor, ...]:
        values = [first]
        for step in self.steps:
            values.append(step.call(*(values[at] for at in step.reads)))
        return tuple(values[at] for at in self.outputs)

    @property
    def recipe(self) -> str:
        """The layers, as one line."""
        return "; ".join(f"{step.name}{list(step.reads)}" for step in self.steps) + f" -> {list(self.outputs)}"


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


def network(seed: int) -> Drawn:
    """Return the network of a seed: always the same one."""
    dice = Dice(np.random.default_rng(seed))
    torch.manual_seed(seed)
    batch = dice.pick(1, 1, 2)
    if dice.chance(0.7):
        shape: tuple[int, ...] = (batch, dice.between(2, 16), dice.between(5, 17), dice.between(5, 17))
    else:
        shape = (batch, dice.between(2, 20), dice.pick(8, 12, 16, 24))
    first = torch.rand(shape) * 2 - 1
    values, steps = [first], []
    for _ in range(dice.between(2, 7)):
        step = _drawn(dice, values)
        if step is not None:
            steps.append(step)
            with torch.no_grad():
                for module in step.modules:
                    module.eval()
                values.append(step.call(*(values[at] for at in step.reads)))
    last = len(values) - 1
    others = [at for at in range(1, last) if dice.chance(0.25)][:2] if steps else []
    module = RandomNetwork(steps, (*others, last)).eval()
    return Drawn(seed, module, (first,))


def _drawn(dice: Dice, values: list[Tensor]) -> NetworkStep | None:
    last = len(values) - 1
    for _ in range(_TRIES):
        step = of_map(dice, values, last) if values[last].dim() == 4 else of_tokens(dice, values, last)
        if step is not None:
            return step
    return None
