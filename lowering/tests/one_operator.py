"""TOSA programs of one operator, built without PyTorch: a millisecond each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import tosa_serializer as ts  # type: ignore[import-untyped]

_DTYPES = {"f": ts.DType.FP32, "i": ts.DType.INT32, "b": ts.DType.BOOL}
_ACCUMULATOR = ts.DType.FP32
_NAN = ts.NanPropagationMode.PROPAGATE


@dataclass(frozen=True)
class Input:
    """An input tensor: its shape, and between which numbers it lies. Integers and truth values have no errors."""

    shape: tuple[int, ...]
    low: float = -4.0
    high: float = 4.0
    kind: str = "f"

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """float32, int32 or bool."""
        if self.kind == "b":
            return rng.random(self.shape) < 0.5
        if self.kind == "i":
            return rng.integers(int(self.low), int(self.high), self.shape).astype(np.int32)
        return rng.uniform(self.low, self.high, self.shape).astype(np.float32)


@dataclass(frozen=True)
class Shape:
    """An input that is a shape, or a list of numbers kept as one."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class OneOperator:
    """A program that is one operator.

    Attributes:
        op: TOSA's name.
        inputs: in order; an array is a constant.
        shape: of the output.
        kind: of the output: "f", "i" or "b".
        attribute: sets the operator's attributes; none if it has no fields.
    """

    op: str
    inputs: tuple[Input | Shape | np.ndarray, ...]
    shape: tuple[int, ...]
    kind: str = "f"
    attribute: Callable[[Any], None] | None = field(default=None, repr=False)

    @property
    def variables(self) -> tuple[Input, ...]:
        """The inputs that are given when it runs."""
        return tuple(source for source in self.inputs if isinstance(source, Input))

    @cached_property
    def tosa(self) -> bytes:
        """The flatbuffer."""
        serializer = ts.TosaSerializer("", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False)
        names = [f"in{number}" for number in range(len(self.inputs))]
        for name, source in zip(names, self.inputs, strict=True):
            if isinstance(source, Input):
                tensor = ts.TosaSerializerTensor(name, list(source.shape), _DTYPES[source.kind], data=None)
                serializer.addInputTensor(tensor)
            elif isinstance(source, Shape):
                serializer.addConst([len(source.numbers)], ts.DType.SHAPE, list(source.numbers), name=name)
            else:
                dtype = ts.DType.INT8 if source.dtype == np.int8 else _DTYPES[source.dtype.kind]
                serializer.addConst(list(source.shape), dtype, source, name=name)
        block = serializer.currRegion.currBasicBlock
        block.addTensor("out", list(self.shape), _DTYPES[self.kind])
        attribute = ts.TosaSerializerAttribute()
        (self.attribute or getattr(type(attribute), f"{_camel(self.op)}Attribute"))(attribute)
        serializer.addOperator(getattr(ts.Op, self.op), names, ["out"], attribute)
        block.addOutput("out")
        return bytes(serializer.serialize())


def _camel(op: str) -> str:
    return {"MATMUL": "MatMul", "INTDIV": "IntDiv"}.get(op) or "".join(part.capitalize() for part in op.split("_"))


def _axis(op: str, axis: int) -> Callable[[Any], None]:
    nan = (_NAN,) if op in ("REDUCE_MAX", "REDUCE_MIN", "ARGMAX") else ()
    name = "ArgMax" if op == "ARGMAX" else _camel(op)
    return lambda attribute: getattr(attribute, f"{name}Attribute")(axis, *nan)


def _window(name: str, *numbers: Sequence[int]) -> Callable[[Any], None]:
    return lambda attribute: getattr(attribute, f"{name}Attribute")(*map(list, numbers), False, _ACCUMULATOR)


def _floats(low: float, high: float) -> tuple[list[int], list[int]]:
    return tuple(list(np.float32(end).tobytes()) for end in (low, high))  # type: ignore[return-value]


_S = (2, 3, 5)
_ONE = (1, 3, 1)
_ZERO = np.zeros(1, np.float32)
_UNARY = {
    "ABS": (-4, 4), "CEIL": (-4, 4), "COS": (-9, 9), "ERF": (-4, 4), "EXP": (-9, 9), "FLOOR": (-4, 4), "LOG": (1e-3, 9),
    "RECIPROCAL": (0.1, 9), "RSQRT": (0.01, 9), "SIGMOID": (-9, 9), "SIN": (-9, 9), "TANH": (-5, 5),
}  # fmt: skip
_BINARY = {"ADD": "f", "SUB": "f", "MAXIMUM": "f", "MINIMUM": "f", "EQUAL": "b", "GREATER": "b", "GREATER_EQUAL": "b"}


def _binary(op: str, kind: str) -> OneOperator:
    extreme = op in ("MAXIMUM", "MINIMUM")
    set_nan = (lambda attribute: getattr(attribute, f"{_camel(op)}Attribute")(_NAN)) if extreme else None
    return OneOperator(op, (Input(_S), Input(_ONE)), _S, kind, set_nan)


def _resize(mode: Any) -> OneOperator:
    inputs = (Input((1, 4, 5, 2)), Shape((4, 3, 4, 2)), Shape((-1, 0)), Shape((2, 0)))
    return OneOperator("RESIZE", inputs, (1, 6, 9, 2), attribute=lambda attribute: attribute.ResizeAttribute(mode))


OPERATORS: tuple[OneOperator, ...] = (
    *(OneOperator(op, (Input(_S, *limits),), _S) for op, limits in _UNARY.items()),
    *(_binary(op, kind) for op, kind in _BINARY.items()),
    *(
        OneOperator(op, (Input(_S, kind="b"), Input(_ONE, kind="b")), _S, "b")
        for op in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")
    ),
    OneOperator("LOGICAL_NOT", (Input(_S, kind="b"),), _S, "b"),
    OneOperator("RECIPROCAL", (Input(_S, -9, -0.1),), _S),
    OneOperator("MUL", (Input(_S), Input(_ONE), np.zeros(1, np.int8)), _S),
    OneOperator("POW", (Input(_S, 0.05, 5), Input(_S, -2, 3)), _S),
    OneOperator("NEGATE", (Input(_S), _ZERO, _ZERO), _S),
    OneOperator("SELECT", (Input(_S, kind="b"), Input(_S), Input(_ONE)), _S),
    OneOperator("CAST", (Input(_S, -99, 99),), _S, "i"),
    OneOperator("CAST", (Input(_S, -99, 99, "i"),), _S),
    OneOperator("CAST", (Input(_S, kind="b"),), _S, "i"),
    OneOperator("CLAMP", (Input(_S),), _S, attribute=lambda a: a.ClampAttribute(*_floats(-1.1, 2.3), _NAN)),
    OneOperator("ARGMAX", (Input(_S),), (2, 5), "i", _axis("ARGMAX", 1)),
    *(
        OneOperator(op, (Input(_S),), (2, 1, 5), attribute=_axis(op, 1))
        for op in ("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT")
    ),
    *(OneOperator(op, (Input(_S, kind="b"),), (2, 1, 5), "b", _axis(op, 1)) for op in ("REDUCE_ANY", "REDUCE_ALL")),
    OneOperator("MATMUL", (Input((2, 3, 9)), Input((2, 9, 4)), _ZERO, _ZERO), (2, 3, 4)),
    OneOperator(
        "CONV2D",
        (Input((2, 7, 6, 3)), Input((4, 3, 2, 3)), Input((4,)), _ZERO, _ZERO),
        (2, 4, 5, 4),
        attribute=_window("Conv2d", (1, 1, 1, 1), (2, 1), (1, 3)),
    ),
    OneOperator(
        "DEPTHWISE_CONV2D",
        (Input((1, 6, 6, 3)), Input((3, 3, 3, 2)), Input((6,)), _ZERO, _ZERO),
        (1, 6, 6, 6),
        attribute=_window("DepthwiseConv2d", (1, 1, 1, 1), (1, 1), (1, 1)),
    ),
    OneOperator(
        "CONV3D",
        (Input((1, 4, 5, 5, 2)), Input((3, 2, 3, 3, 2)), Input((1,)), _ZERO, _ZERO),
        (1, 3, 3, 3, 3),
        attribute=_window("Conv3d", (0, 0, 0, 0, 0, 0), (1, 1, 1), (1, 1, 1)),
    ),
    OneOperator(
        "TRANSPOSE_CONV2D",
        (Input((1, 3, 4, 2)), Input((3, 3, 2, 2)), Input((3,)), _ZERO, _ZERO),
        (1, 7, 8, 3),
        attribute=_window("TransposeConv2d", (-1, 1, 1, -1), (2, 2)),
    ),
    OneOperator(
        "AVG_POOL2D",
        (Input((1, 6, 5, 3)), _ZERO, _ZERO),
        (1, 3, 5, 3),
        attribute=lambda a: a.AvgPool2dAttribute([3, 2], [2, 1], [1, 0, 0, 1], _ACCUMULATOR),
    ),
    OneOperator(
        "MAX_POOL2D",
        (Input((1, 6, 5, 3)),),
        (1, 3, 5, 3),
        attribute=lambda a: a.MaxPool2dAttribute([3, 2], [2, 1], [1, 0, 0, 1], _NAN),
    ),
    _resize(ts.ResizeMode.BILINEAR),
    _resize(ts.ResizeMode.NEAREST),
    OneOperator("RESHAPE", (Input(_S), Shape((5, 6))), (5, 6)),
    OneOperator("TRANSPOSE", (Input(_S),), (5, 2, 3), attribute=lambda a: a.TransposeAttribute([2, 0, 1])),
    OneOperator("REVERSE", (Input(_S),), _S, attribute=_axis("REVERSE", 2)),
    OneOperator("CONCAT", (Input(_S), Input((2, 1, 5))), (2, 4, 5), attribute=_axis("CONCAT", 1)),
    OneOperator("SLICE", (Input(_S), Shape((0, 1, 2)), Shape((2, 2, 3))), (2, 2, 3)),
    OneOperator("TILE", (Input(_S), Shape((1, 2, 3))), (2, 6, 15)),
    OneOperator("PAD", (Input(_S), Shape((0, 1, 2, 0, 1, 1)), np.full(1, 1.5, np.float32)), (3, 5, 7)),
    OneOperator("IDENTITY", (Input(_S),), _S),
    OneOperator("GATHER", (Input((2, 4, 3)), Input((2, 5), 0, 4, "i")), (2, 5, 3)),
    OneOperator("SCATTER", (Input((2, 4, 3)), np.array([[3, 0], [1, 2]], np.int32), Input((2, 2, 3))), (2, 4, 3)),
)
