"""The choices that make a random graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Rng

T = TypeVar("T")

WIDTHS = ("int8", "int16", "int32")


class Dice:
    """The draws that graphs need.

    Attributes:
        rng: the source of all of them, also for weights and tables.
    """

    def __init__(self, rng: Rng) -> None:
        self.rng = rng

    def between(self, low: int, high: int) -> int:
        """Draw an integer, both ends included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def pick(self, *options: T) -> T:
        """Draw one of the options. An option that is given twice is twice as likely."""
        return options[self.between(0, len(options) - 1)]

    def chance(self, probability: float) -> bool:
        """Draw whether something happens."""
        return bool(self.rng.random() < probability)

    def extent(self, low: int, high: int) -> int:
        """Draw a dimension, often a small one: there edges and partial blocks meet."""
        return self.pick(self.between(low, high), low, self.between(low, min(high, low + 4)))

    def pair(self, *options: int) -> tuple[int, int]:
        """Draw one of the options for y and one for x."""
        return self.pick(*options), self.pick(*options)

    def shape(self, largest: int, ranks: tuple[int, ...] = (1, 2, 3, 4, 5)) -> list[int]:
        """Draw a shape whose dimensions are `largest` at most."""
        return [self.between(1, largest) for _ in range(self.pick(*ranks))]

    def some_ones(self, shape: list[int], probability: float) -> list[int]:
        """Return a shape that broadcasts to the given one: some of its dimensions are 1."""
        return [1 if self.chance(probability) else extent for extent in shape]

    def batch(self) -> int:
        """Draw a batch size, mostly 1."""
        return self.pick(1, 1, 1, 2, 3)

    def activation(self) -> str:
        """Draw the type of quantised activations."""
        return self.pick("int8", "int8", "int16")

    def zero(self, dtype: str) -> int:
        """Draw a zero point. Only int8 has others than 0."""
        return self.between(-128, 127) if dtype == "int8" else 0


Form = Callable[[Dice, Graph], Value]
