"""A program of the conformance catalogue: a small TOSA graph with seeded constants, and its inputs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.testing.tosa_graph import Array, Graph, Value

Rng = np.random.Generator
Build = Callable[[Graph, Rng], Value | Sequence[Value]]
Limits = tuple[int, int] | None  # both inclusive; None: all values of the type
KINDS = ("random", "extremes", "ramp")


@dataclass(frozen=True)
class TosaProgram:
    """A graph to compile and run, by a name that says what it is for.

    All randomness of what makes it is from the generator that it gets, which depends on the name alone. Inputs without
    limits have all values of their type. `given` are input sets to run as well as the drawn kinds (see `draw`), for
    values that must be constructed; `flags` are what Vela needs to compile what the program is for.
    """

    name: str
    build: Build = field(repr=False)
    limits: tuple[Limits, ...] = ()
    given: tuple[Callable[[Rng], Sequence[Array]], ...] = ()
    flags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS

    @cached_property
    def graph(self) -> Graph:
        """The complete graph."""
        graph = Graph()
        result = self.build(graph, self._rng("graph"))
        return graph.output(*([result] if isinstance(result, Value) else result))

    @cached_property
    def tosa(self) -> bytes:
        return self.graph.serialize()

    def input_sets(self) -> list[tuple[str, list[Array]]]:
        """Return all input sets to run it with, each with a name."""
        values = self.graph.inputs
        limits = [*self.limits, *[None] * (len(values) - len(self.limits))]
        sets = []
        for kind in self.kinds:
            rng = self._rng(kind)
            sets.append((kind, [draw(value, kind, rng, limit) for value, limit in zip(values, limits, strict=True)]))
        sets += [(f"given {i}", list(make(self._rng(f"given {i}")))) for i, make in enumerate(self.given)]
        return sets

    def _rng(self, purpose: str) -> Rng:
        return np.random.default_rng(zlib.crc32(f"{self.name}/{purpose}".encode()))


def draw(value: Value, kind: str, rng: Rng, limits: Limits) -> Array:
    """Return a random input of the shape and type of a value.

    "random", evenly; "extremes", the two ends; "ramp", consecutive integers around the middle, shuffled: every int8
    and, after scaling by a power of two, every tie.
    """
    if value.dtype == "bool":
        return rng.random(value.shape) < {"random": 0.5, "extremes": 0.95, "ramp": 0.05}[kind]
    dtype = np.dtype(value.dtype)
    low, high = limits or (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if kind == "random":
        return rng.integers(low, high, value.shape, endpoint=True).astype(dtype)
    if kind == "extremes":
        return np.where(rng.random(value.shape) < 0.5, low, high).astype(dtype)
    count = min(int(np.prod(value.shape)), high - low + 1)
    start = (low + high + 1) // 2 - count // 2
    ramp = start + np.arange(np.prod(value.shape)) % count
    return rng.permutation(ramp).reshape(value.shape).astype(dtype)


class ProgramCatalogue(dict[str, TosaProgram]):
    """Programs by name, in the order in which they were added."""

    def add(
        self,
        name: str,
        build: Build,
        *limits: Limits,
        given: Sequence[Callable[[Rng], Sequence[Array]]] = (),
        flags: Sequence[str] = (),
        kinds: Sequence[str] = KINDS,
    ) -> None:
        """Add a program. Raises ValueError if its name is not new."""
        if name in self:
            raise ValueError(f"two programs are called {name!r}")
        self[name] = TosaProgram(name, build, tuple(limits), tuple(given), tuple(flags), tuple(kinds))

    def add_all(self, builds: Mapping[str, Build]) -> None:
        """Add programs whose inputs have all values of their types."""
        for name, build in builds.items():
            self.add(name, build)

    def program(
        self, name: str, *limits: Limits, flags: Sequence[str] = (), kinds: Sequence[str] = KINDS
    ) -> Callable[[Build], Build]:
        """Return a decorator that adds the decorated function as a program."""

        def register(build: Build) -> Build:
            self.add(name, build, *limits, flags=flags, kinds=kinds)
            return build

        return register


def reference(tosa: bytes, inputs: Sequence[np.ndarray]) -> list[bytes]:
    """The bytes of each output of a TOSA graph. Raises OracleError where there is no valid answer."""
    return [values.tobytes() for values in evaluate(tosa, inputs, "the graph")]
