"""What a layer of a random network is, and what it is drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

T = TypeVar("T")
Call = Callable[..., Tensor]
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU, "relu6": nn.ReLU6, "gelu": nn.GELU, "silu": nn.SiLU, "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "leaky": lambda: nn.LeakyReLU(0.1),
    "elu": nn.ELU, "softplus": nn.Softplus, "mish": nn.Mish, "prelu": nn.PReLU, "hardtanh": nn.Hardtanh,
    "gelu tanh": lambda: nn.GELU("tanh"), "selu": nn.SELU, "celu": nn.CELU, "log sigmoid": nn.LogSigmoid,
    "softsign": nn.Softsign, "tanhshrink": nn.Tanhshrink, "hardshrink": nn.Hardshrink, "softshrink": nn.Softshrink,
    "threshold": lambda: nn.Threshold(0.1, -0.2),
}  # fmt: skip
LARGEST = 4096
"""Elements of a value of one sample that a network still enlarges."""


class Dice:
    """The draws that networks need."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def between(self, low: int, high: int) -> int:
        """Draw an integer, both ends included."""
        return int(self._rng.integers(low, high, endpoint=True))

    def pick(self, *options: T) -> T:
        """Draw one of the options. An option that is given twice is twice as likely."""
        return options[self.between(0, len(options) - 1)]

    def chance(self, probability: float) -> bool:
        """Draw whether something happens."""
        return bool(self._rng.random() < probability)


@dataclass(frozen=True)
class NetworkStep:
    """One layer of a network.

    Attributes:
        name: for people.
        call: computes the result from the values at `reads`.
        reads: which earlier values it reads.
        modules: the modules that `call` uses.
    """

    name: str
    call: Call
    reads: tuple[int, ...]
    modules: tuple[nn.Module, ...] = field(default=())


@dataclass(frozen=True)
class DrawSite:
    """Where a layer is drawn: the values so far, the last of which it reads.

    Attributes:
        values: the inputs and the results of all layers.
    """

    values: list[Tensor]

    @property
    def last(self) -> int:
        """The index of the last value."""
        return len(self.values) - 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the last value."""
        return tuple(self.values[-1].shape)

    @property
    def alike(self) -> list[int]:
        """The floats with the last value's shape, itself included."""
        return [
            at
            for at, value in enumerate(self.values)
            if value.shape == self.values[-1].shape and value.is_floating_point()
        ]

    def step(self, name: str, call: Call) -> NetworkStep:
        """Return a layer of the last value that has no weights, or is a module."""
        return NetworkStep(name, call, (self.last,), (call,) if isinstance(call, nn.Module) else ())


Drawer = Callable[[Dice, DrawSite], NetworkStep | None]
"""Draws a layer; None if the one that was drawn does not fit."""


def activation(dice: Dice) -> tuple[str, nn.Module]:
    """Draw an activation and its name."""
    name = dice.pick(*ACTIVATIONS)
    return name, ACTIVATIONS[name]()


def one_of(calls: Mapping[str, Call]) -> Drawer:
    """Return what draws one of some functions of a value."""
    return partial(_one_of, calls)


def _one_of(calls: Mapping[str, Call], dice: Dice, site: DrawSite) -> NetworkStep:
    name = dice.pick(*calls)
    return site.step(name, calls[name])


NUMBERS: dict[str, Call] = {
    "x * 0.7 + 0.1": lambda x: x * 0.7 + 0.1,
    "clamp": lambda x: x.clamp(-0.5, 0.8),
    "abs": torch.abs,
    "1 - x": lambda x: 1 - x,
    "square": lambda x: x * x,
    "negated": lambda x: -x,
    "x / 3": lambda x: x / 3,
    "1 / (1 + x * x)": lambda x: 1 / (1 + x * x),
    "cube": lambda x: x**3,
    "exp": lambda x: torch.exp(x.clamp(max=2)),
    "sqrt": lambda x: torch.sqrt(x.abs() + 0.1),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.1),
    "log": lambda x: torch.log(x.abs() + 0.1),
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "where": lambda x: torch.where(x > 0, x, x * 0.3),
    "masked fill": lambda x: x.masked_fill(x < -0.3, -0.3),
    "x / (1 + |x|)": lambda x: x / (1 + x.abs()),
    "tril": torch.tril,
}
"""Arithmetic of each element."""
