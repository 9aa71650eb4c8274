"""Chooses what a random graph is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Rng

T = TypeVar("T")

WIDTHS = ("int8", "int16", "int32")


class Dice:
    """Draws of the kinds that graphs need.

    Attributes:
        rng: the source of all of them, also for weights and tables.
    """

    def __init__(self, rng: Rng) -> None:
        self.rng = rng

    def between(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def pick(self, *options: T) -> T:
        """One of the options; what is named twice is twice as likely."""
        return options[self.between(0, len(options) - 1)]

    def chance(self, probability: float) -> bool:
        """Whether something happens."""
        return bool(self.rng.random() < probability)

    def extent(self, low: int, high: int) -> int:
        """A dimension: evenly, or small, where edges and partial blocks meet."""
        return self.pick(self.between(low, high), low, self.between(low, min(high, low + 4)))

    def pair(self, *options: int) -> tuple[int, int]:
        """One of the options for each of y and x."""
        return self.pick(*options), self.pick(*options)

    def shape(self, largest: int, ranks: tuple[int, ...] = (1, 2, 3, 4, 5)) -> list[int]:
        """Dimensions up to the largest."""
        return [self.between(1, largest) for _ in range(self.pick(*ranks))]

    def some_ones(self, shape: list[int], probability: float) -> list[int]:
        """A shape that broadcasts to the given one."""
        return [1 if self.chance(probability) else extent for extent in shape]

    def batch(self) -> int:
        """Mostly one."""
        return self.pick(1, 1, 1, 2, 3)

    def activation(self) -> str:
        """The type of quantised activations."""
        return self.pick("int8", "int8", "int16")

    def zero(self, dtype: str) -> int:
        """A zero point; only int8 has others than 0."""
        return self.between(-128, 127) if dtype == "int8" else 0


Form = Callable[[Dice, Graph], Value]
