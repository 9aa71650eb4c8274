"""Values of a TOSA graph being built, their constants, and the bodies of its branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import tosa_serializer as ts  # type: ignore[import-untyped]

Array = npt.NDArray[Any]

DTYPES = {
    "bool": ts.DType.BOOL,
    "int4": ts.DType.INT4,
    "int8": ts.DType.INT8,
    "int16": ts.DType.INT16,
    "int32": ts.DType.INT32,
    "int48": ts.DType.INT48,
}
# NumPy types in which the serializer takes constants.
_HOLDERS = {
    "bool": np.bool_,
    "int4": np.int8,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int48": np.int64,
}


@dataclass(frozen=True)
class Value:
    """A tensor of a graph being built."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Tensors:
    """Inputs, outputs, constants and operators of a TOSA-1.0 graph. Derived classes add operators by name."""

    def __init__(self) -> None:
        self._serializer = ts.TosaSerializer("", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False)
        self._count = 0
        self._bodies: list[tuple[str, Callable[[], None]]] = []
        self.inputs: list[Value] = []

    def input(self, shape: Sequence[int], dtype: str = "int8") -> Value:
        """Add a graph input."""
        value = self._argument(shape, dtype)
        self.inputs.append(value)
        return value

    def output(self, *values: Value) -> Self:
        """Make values outputs of the graph."""
        block = self._serializer.currRegion.currBasicBlock
        for value in values:
            block.addOutput(value.name)
        return self

    def serialize(self) -> bytes:
        """Return the graph as a TOSA flatbuffer. Nothing can be added after that."""
        while self._bodies:  # a body may have bodies of its own
            name, build = self._bodies.pop(0)
            self._serializer.startRegion(name)
            self._serializer.currRegion.addBasicBlock(name)
            build()
        return bytes(self._serializer.serialize())

    def const(self, values: Any, dtype: str) -> Value:
        """Add a constant."""
        array = np.asarray(values)
        value = self._named(array.shape, dtype)
        self._serializer.addConst(list(array.shape), DTYPES[dtype], array.astype(_HOLDERS[dtype]), name=value.name)
        return value

    def _argument(self, shape: Sequence[int], dtype: str) -> Value:
        value = self._named(shape, dtype)
        self._serializer.addInputTensor(ts.TosaSerializerTensor(value.name, list(shape), DTYPES[dtype], data=None))
        return value

    def _body(self, build: Callable[..., Value | Sequence[Value]], arguments: Sequence[Value]) -> str:
        """Return the name of a new region, which `build` fills from values like `arguments`."""
        self._count += 1
        name = f"body{self._count}"

        def fill() -> None:
            result = build(*(self._argument(value.shape, value.dtype) for value in arguments))
            self.output(*([result] if isinstance(result, Value) else result))

        self._bodies.append((name, fill))
        return name

    def _shape(self, values: Sequence[int]) -> Value:
        value = self._named((len(values),), "int32")
        self._serializer.addConst([len(values)], ts.DType.SHAPE, list(values), name=value.name)
        return value

    def _named(self, shape: Sequence[int], dtype: str) -> Value:
        self._count += 1
        return Value(f"t{self._count}", tuple(shape), dtype)

    def _op(
        self, op: Any, attribute: Any, inputs: Sequence[Value], shape: Sequence[int], dtype: str, *more: Value
    ) -> Value:
        """Add an operator and return its first output; `more` are the shapes and types of further outputs."""
        value = self._named(shape, dtype)
        self._declare(value)
        for other in more:
            self._declare(other)
        outputs = [value.name, *(other.name for other in more)]
        self._serializer.addOperator(op, [v.name for v in inputs], outputs, attribute)
        return value

    def _declare(self, value: Value) -> None:
        block = self._serializer.currRegion.currBasicBlock
        block.addTensor(value.name, list(value.shape), DTYPES[value.dtype])
