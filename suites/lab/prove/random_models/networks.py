"""Random networks of PyTorch layers. Each depends on its seed alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ethos_hil.suites.lab.prove.random_models.maps import combined, of_map
from ethos_hil.suites.lab.prove.random_models.network_step import Dice, DrawSite, NetworkStep
from ethos_hil.suites.lab.prove.random_models.tokens import of_tokens
from ethos_hil.suites.lab.prove.random_models.vectors import head, of_vector

_TRIES = 40
_WORDS = 12
_OF_RANK = {4: of_map, 3: of_tokens, 2: of_vector}


class RandomNetwork(nn.Module):
    """A network of drawn layers, each of which reads earlier values."""

    def __init__(self, steps: list[NetworkStep], outputs: tuple[int, ...]) -> None:
        super().__init__()
        self.steps = steps
        self.outputs = outputs
        self.used = nn.ModuleList(module for step in steps for module in step.modules)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
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

    @property
    def recipe(self) -> str:
        """The shapes of the inputs and the layers, as one line."""
        return f"{' '.join(str(list(tensor.shape)) for tensor in self.inputs)}: {self.module.recipe}"


def network(seed: int) -> Drawn:
    """Return the network of a seed: always the same one."""
    dice = Dice(np.random.default_rng(seed))
    torch.manual_seed(seed)
    inputs, steps = _begun(dice, dice.pick(1, 1, 2))
    values = list(inputs)
    _append(values, steps)
    for _ in range(dice.between(2, 7)):
        step = _drawn(dice, values)
        if step is not None:
            steps.append(step)
            _append(values, steps[-1:])
    last = len(values) - 1
    others = [at for at in range(len(inputs), last) if dice.chance(0.25)][:2]
    if dice.chance(0.15):
        steps.append(head(dice, DrawSite(values)))
        last += 1
    module = RandomNetwork(steps, (*others, last)).eval()
    return Drawn(seed, module, inputs)


def _begun(dice: Dice, batch: int) -> tuple[tuple[Tensor, ...], list[NetworkStep]]:
    """Draw the inputs of a network, and the layers that use them up."""
    if dice.chance(0.1):
        words = torch.randint(0, _WORDS, (batch, dice.pick(4, 8, 12)))
        layer = nn.Embedding(_WORDS, dice.pick(8, 12, 16))
        return (words,), [NetworkStep("embedding", layer, (0,), (layer,))]
    if dice.chance(0.7):
        shape: tuple[int, ...] = (batch, dice.between(2, 16), dice.between(5, 17), dice.between(5, 17))
    else:
        shape = (batch, dice.between(2, 20), dice.pick(8, 12, 16, 24))
    inputs = [torch.rand(shape) * 2 - 1 for _ in range(dice.pick(1, 1, 1, 2))]
    return tuple(inputs), [combined(dice, DrawSite(inputs))] if len(inputs) > 1 else []


def _append(values: list[Tensor], steps: list[NetworkStep]) -> None:
    """Compute steps, in evaluation mode."""
    with torch.no_grad():
        for step in steps:
            for module in step.modules:
                module.eval()
            values.append(step.call(*(values[at] for at in step.reads)))


def _drawn(dice: Dice, values: list[Tensor]) -> NetworkStep | None:
    draw = _OF_RANK.get(values[-1].dim())
    for _ in range(_TRIES if draw is not None else 0):
        assert draw is not None
        step = draw(dice, DrawSite(values))
        if step is not None:
            return step
    return None
