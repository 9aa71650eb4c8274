"""TOSA programs of one operator, built without PyTorch: a millisecond each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ethos_hil.lowering.testing.tosa_graph import Graph, Value


@dataclass(frozen=True)
class Input:
    """An input tensor: its shape, and between which numbers it lies. Integers and truth values have no errors."""

    shape: tuple[int, ...]
    low: float = -4.0
    high: float = 4.0
    dtype: str = "float32"

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """float32, int32 or bool."""
        if self.dtype == "bool":
            return rng.random(self.shape) < 0.5
        if self.dtype == "int32":
            return rng.integers(int(self.low), int(self.high), self.shape).astype(np.int32)
        return rng.uniform(self.low, self.high, self.shape).astype(np.float32)


@dataclass(frozen=True, eq=False)
class OneOperator:
    """A program that is one operator.

    Attributes:
        op: TOSA's name.
        variables: the inputs that are given when it runs.
        build: adds it, to a graph with these inputs.
    """

    op: str
    variables: tuple[Input, ...]
    build: Callable[..., Value] = field(repr=False)

    @cached_property
    def tosa(self) -> bytes:
        """The flatbuffer."""
        graph = Graph()
        return graph.output(self.build(graph, *(graph.input(i.shape, i.dtype) for i in self.variables))).serialize()

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the first input, and of the output of elementwise operators."""
        return self.variables[0].shape


def _unary(op: str, low: float, high: float) -> OneOperator:
    return OneOperator(op, (Input(_S, low, high),), lambda g, x: g.unary(op, x))


def _binary(op: str, *inputs: Input) -> OneOperator:
    return OneOperator(op, inputs, lambda g, x, y: g.binary(op, x, y))


def _reduced(op: str, dtype: str = "float32") -> OneOperator:
    return OneOperator(op, (Input(_S, dtype=dtype),), lambda g, x: g.reduce(op.removeprefix("REDUCE_"), x, 1))


def _resize(mode: str) -> OneOperator:
    scale = (4, 3, 4, 2)
    return OneOperator("RESIZE", (Input((1, 4, 5, 2)),), lambda g, x: g.resize(x, mode, scale, (-1, 0), (2, 0)))


_S = (2, 3, 5)
_X, _TRUTH = Input(_S), Input(_S, dtype="bool")
_ONE = Input((1, 3, 1))
_MAP = Input((1, 6, 5, 3))
_WINDOW = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0, 0, 1)}
_UNARY = {
    "ABS": (-4, 4), "CEIL": (-4, 4), "COS": (-9, 9), "ERF": (-4, 4), "EXP": (-9, 9), "FLOOR": (-4, 4), "LOG": (1e-3, 9),
    "RECIPROCAL": (0.1, 9), "RSQRT": (0.01, 9), "SIGMOID": (-9, 9), "SIN": (-9, 9), "TANH": (-5, 5),
}  # fmt: skip
_BINARY = ("ADD", "SUB", "MAXIMUM", "MINIMUM", "EQUAL", "GREATER", "GREATER_EQUAL")
_WIDE = {"pad": (1, 1, 1, 1), "stride": (2, 1), "dilation": (1, 3)}
_PLACES = np.array([[3, 0], [1, 2]])

_TRUTHS = (_TRUTH, Input((1, 3, 1), dtype="bool"))

OPERATORS: tuple[OneOperator, ...] = (
    *(_unary(op, *limits) for op, limits in _UNARY.items()),
    *(_binary(op, _X, _ONE) for op in _BINARY),
    *(_binary(op, *_TRUTHS) for op in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")),
    OneOperator("LOGICAL_NOT", (_TRUTH,), lambda g, x: g.unary("LOGICAL_NOT", x)),
    _unary("RECIPROCAL", -9, -0.1),
    _binary("MUL", _X, _ONE),
    _binary("POW", Input(_S, 0.05, 5), Input(_S, -2, 3)),
    OneOperator("NEGATE", (_X,), lambda g, x: g.negate(x)),
    OneOperator("SELECT", (_TRUTH, _X, _ONE), lambda g, *values: g.select(*values)),
    OneOperator("CAST", (Input(_S, -99, 99),), lambda g, x: g.cast(x, "int32")),
    OneOperator("CAST", (Input(_S, -99, 99, "int32"),), lambda g, x: g.cast(x, "float32")),
    OneOperator("CAST", (_TRUTH,), lambda g, x: g.cast(x, "int32")),
    OneOperator("CLAMP", (_X,), lambda g, x: g.clamp(x, -1.1, 2.3)),
    OneOperator("ARGMAX", (_X,), lambda g, x: g.argmax(x, 1)),
    *(_reduced(f"REDUCE_{name}") for name in ("SUM", "MAX", "MIN", "PRODUCT")),
    *(_reduced(f"REDUCE_{name}", "bool") for name in ("ANY", "ALL")),
    OneOperator("MATMUL", (Input((2, 3, 9)), Input((2, 9, 4))), lambda g, x, y: g.matmul(x, y)),
    OneOperator("CONV2D", (Input((2, 7, 6, 3)), Input((4, 3, 2, 3)), Input((4,))),
                lambda g, *values: g.conv(*values, **_WIDE)),
    OneOperator("DEPTHWISE_CONV2D", (Input((1, 6, 6, 3)), Input((3, 3, 3, 2)), Input((6,))),
                lambda g, *values: g.depthwise(*values, pad=(1, 1, 1, 1))),
    OneOperator("CONV3D", (Input((1, 4, 5, 5, 2)), Input((3, 2, 3, 3, 2)), Input((1,))),
                lambda g, *values: g.conv3d(*values)),
    OneOperator("TRANSPOSE_CONV2D", (Input((1, 3, 4, 2)), Input((3, 3, 2, 2)), Input((3,))),
                lambda g, *values: g.transpose_conv(*values, out_pad=(-1, 1, 1, -1))),
    OneOperator("AVG_POOL2D", (_MAP,), lambda g, x: g.average_pool(x, **_WINDOW)),
    OneOperator("MAX_POOL2D", (_MAP,), lambda g, x: g.max_pool(x, **_WINDOW)),
    _resize("BILINEAR"),
    _resize("NEAREST"),
    OneOperator("RESHAPE", (_X,), lambda g, x: g.reshape(x, (5, 6))),
    OneOperator("TRANSPOSE", (_X,), lambda g, x: g.transpose(x, (2, 0, 1))),
    OneOperator("REVERSE", (_X,), lambda g, x: g.reverse(x, 2)),
    OneOperator("CONCAT", (_X, Input((2, 1, 5))), lambda g, *values: g.concat(values, 1)),
    OneOperator("SLICE", (_X,), lambda g, x: g.slice(x, (0, 1, 2), (2, 2, 3))),
    OneOperator("TILE", (_X,), lambda g, x: g.tile(x, (1, 2, 3))),
    OneOperator("PAD", (_X,), lambda g, x: g.pad(x, (0, 1, 2, 0, 1, 1), 1.5)),
    _unary("IDENTITY", -4, 4),
    OneOperator("GATHER", (Input((2, 4, 3)), Input((2, 5), 0, 4, "int32")), lambda g, x, at: g.gather(x, at)),
    OneOperator("SCATTER", (Input((2, 4, 3)), Input((2, 2, 3))),
                lambda g, x, rows: g.scatter(x, g.const(_PLACES, "int32"), rows)),
)  # fmt: skip
