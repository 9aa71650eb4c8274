"""Dimensions that an exported program leaves free (`dynamic_shapes` of torch.export), and its inputs at a chosen size.

An Ethos-U's program has fixed shapes, so a free dimension gets a size before anything is lowered: that of the example,
or the one that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import did_you_mean

if TYPE_CHECKING:
    import torch

BATCH = "batch"
"""What the first dimension of an input may be called. A .pt2 does not keep the names of its `torch.export.Dim`s."""


@dataclass(frozen=True)
class FreeDimension:
    """A size that a program leaves open.

    Attributes:
        symbol: torch's name for it, "s31".
        places: the dimensions of inputs that have it, "x[0]".
        least: the smallest size.
        most: the largest size; None where there is none.
        size: the size of the example.
    """

    symbol: str
    places: tuple[str, ...]
    least: int
    most: int | None
    size: int

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called."""
        first = (BATCH,) if any(place.endswith("[0]") for place in self.places) else ()
        return (*first, *self.places, self.symbol)

    def __str__(self) -> str:
        sizes = f"{self.least} to {self.most}" if self.most is not None else f"{self.least} or more"
        return f"{' = '.join(self.places)} ({sizes})"


@dataclass(frozen=True)
class FreeSizes:
    """The sizes of a program's inputs, of which some are free.

    Attributes:
        dimensions: the free dimensions.
        shapes: of each input the sizes: numbers, or expressions of sympy in the dimensions' symbols.
    """

    dimensions: tuple[FreeDimension, ...] = ()
    shapes: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, program: torch.export.ExportedProgram, example: Sequence[torch.Tensor]) -> FreeSizes:
        """Return those of an exported program with its example inputs."""
        names = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
        nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        shapes = tuple(
            tuple(getattr(getattr(size, "node", None), "expr", size) for size in nodes[name].meta["val"].shape)
            for name in names
        )
        found: dict[Any, list[tuple[int, int]]] = {}
        for at, shape in enumerate(shapes):
            for axis, size in enumerate(shape):
                if getattr(size, "is_Symbol", False):
                    found.setdefault(size, []).append((at, axis))
        limits = program.range_constraints
        return cls(
            tuple(
                FreeDimension(
                    str(symbol),
                    tuple(f"{names[at]}[{axis}]" for at, axis in places),
                    max(1, int(limits[symbol].lower)) if symbol in limits else 1,
                    int(limits[symbol].upper) if symbol in limits and limits[symbol].upper.is_Integer else None,
                    example[places[0][0]].shape[places[0][1]],
                )
                for symbol, places in found.items()
            ),
            shapes,
        )

    def chosen(self, asked: Sequence[str], what: str) -> Mapping[str, int]:
        """Return the sizes that are asked for, by symbol.

        Args:
            asked: "NAME=SIZE" each, with one of `FreeDimension.names`.
            what: the program's name in an error.

        Raises:
            UsageError: one names no free dimension, or several, or gives a size that it cannot have.
        """
        if asked and not self.dimensions:
            raise UsageError(
                f"--dim {asked[0]}: {what} leaves no dimension free",
                hint="leave it out, and give example inputs of that size, or export with dynamic_shapes",
            )
        sizes: dict[str, int] = {}
        for text in asked:
            name, equals, number = text.rpartition("=")
            dimension = self._named(name if equals else text, text, what)
            if not number.isdecimal() or not dimension.least <= int(number) <= (dimension.most or int(number)):
                raise UsageError(f"--dim {text}: {number!r} is not a size of {dimension}", hint="give one within that")
            if sizes.setdefault(dimension.symbol, int(number)) != int(number):
                raise UsageError(f"--dim {text}: {dimension} has another size already", hint="give it once")
        return sizes

    def _named(self, name: str, text: str, what: str) -> FreeDimension:
        called = [dimension for dimension in self.dimensions if name in dimension.names]
        if len(called) == 1:
            return called[0]
        free = ", ".join(map(str, called or self.dimensions))
        if called:
            raise UsageError(f"--dim {text}: {what} has several of that name", hint=f"say which: {free}")
        names = [other for dimension in self.dimensions for other in dimension.names]
        hint = f"{did_you_mean(name, names)}NAME=SIZE, as in {names[0]}=4; free: {free}"
        raise UsageError(f"--dim {text}: {what} leaves no dimension {name!r} free", hint=hint)

    def resized(self, inputs: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        """Return inputs with other sizes: of a smaller dimension the first part, of a larger one repeated."""
        import torch

        results = []
        for tensor, shape in zip(inputs, self.shapes, strict=True):
            for axis, expression in enumerate(shape):
                if isinstance(expression, int) or not {str(each) for each in expression.free_symbols} & sizes.keys():
                    continue
                values = {each: sizes.get(str(each), self._size(str(each))) for each in expression.free_symbols}
                size = int(expression.subs(values))
                tensor = tensor.index_select(axis, torch.arange(size) % tensor.shape[axis])
            results.append(tensor)
        return tuple(results)

    def _size(self, symbol: str) -> int:
        return next(dimension.size for dimension in self.dimensions if dimension.symbol == symbol)

    def notes(self, sizes: Mapping[str, int]) -> tuple[str, ...]:
        """Return a sentence for each dimension: at which size it runs, and why."""
        return tuple(
            f"free dimension {dimension} runs at {sizes[dimension.symbol]}, as asked"
            if dimension.symbol in sizes
            else f"free dimension {dimension} runs at {dimension.size}, the size of the example; "
            f"--dim '{dimension.names[0]}=SIZE' gives another"
            for dimension in self.dimensions
        )


FIXED = FreeSizes()
"""Those of a model that leaves nothing free."""
