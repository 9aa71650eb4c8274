"""A TOSA program that is being rewritten: operators change their operands, and new ones come between them.

All that is not touched, weights above all, stays as it is in the old program's bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from tosa.Attribute import Attribute
from tosa.Op import Op
from tosa.TosaGraph import TosaGraph as Buffer

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.lowering.formats.tosa import CONSTANTS, DTYPES, TosaGraph, attribute_of

# New tables in front of an old flatbuffer, which they may refer to.
#
# Offsets in a flatbuffer only point forward. So changed and new tables are laid out at the start, parents before
# children, and the old bytes follow as they are: weights of any size are neither parsed nor copied piece by piece.

_ALIGNMENT = 16


@dataclass(frozen=True, eq=False)
class Old:
    """A table, vector or string of the old flatbuffer, by its position there."""

    position: int


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number in a table: a format of `struct` of at most four bytes, and the value."""

    form: str
    value: int


@dataclass(frozen=True, eq=False)
class ByteVector:
    """A vector of bytes, aligned to eight as TOSA's schema asks of data."""

    data: bytes


@dataclass(frozen=True, eq=False)
class Numbers:
    """A vector of int32."""

    values: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Items:
    """A vector of tables or strings."""

    items: Sequence[Node]


@dataclass(frozen=True, eq=False)
class NewTable:
    """A table: its fields by their number in the schema."""

    fields: Mapping[int, Scalar | Node]


Node = Old | ByteVector | Numbers | Items | NewTable | str


def in_front(root: NewTable, identifier: bytes, old: bytes) -> bytes:
    """Return a flatbuffer with a new root table, whose nodes may lie in `old`.

    Args:
        root: the root table.
        identifier: the four bytes of the file identifier.
        old: a complete flatbuffer.
    """
    data = bytearray(8)
    data[4:8] = identifier
    waiting: list[tuple[int, Node]] = [(0, root)]  # where an offset is missing, and to what
    to_old: list[tuple[int, int]] = []
    while waiting:
        at, node = waiting.pop()
        if isinstance(node, Old):
            to_old.append((at, node.position))
            continue
        position = _append(data, node, waiting)
        struct.pack_into("<I", data, at, position - at)
    data += bytes(-len(data) % _ALIGNMENT)
    for at, position in to_old:
        struct.pack_into("<I", data, at, len(data) + position - at)
    return bytes(data) + old


def _append(data: bytearray, node: Node, waiting: list[tuple[int, Node]]) -> int:
    """Append one node, note the offsets that it lacks, and return its position."""
    if isinstance(node, NewTable):
        return _append_table(data, node, waiting)
    if isinstance(node, ByteVector):
        data += bytes((-len(data) - 4) % 8)
    else:
        data += bytes(-len(data) % 4)
    position = len(data)
    if isinstance(node, str):
        encoded = node.encode()
        data += struct.pack("<I", len(encoded)) + encoded + b"\0"
    elif isinstance(node, ByteVector):
        data += struct.pack("<I", len(node.data)) + node.data
    elif isinstance(node, Numbers):
        data += struct.pack(f"<I{len(node.values)}i", len(node.values), *node.values)
    elif isinstance(node, Items):
        data += struct.pack("<I", len(node.items)) + bytes(4 * len(node.items))
        waiting += [(position + 4 + 4 * number, item) for number, item in enumerate(node.items)]
    return position


def _append_table(data: bytearray, node: NewTable, waiting: list[tuple[int, Node]]) -> int:
    """Append a table and, before it, its vtable. Every field takes four bytes."""
    data += bytes(-len(data) % 4)
    numbers = sorted(node.fields)
    size = 2 * (numbers[-1] + 1 if numbers else 0) + 4
    places = {number: 4 + 4 * order for order, number in enumerate(numbers)}
    vtable = len(data)
    every = (places.get(number, 0) for number in range(size // 2 - 2))
    data += struct.pack(f"<{size // 2}H", size, 4 + 4 * len(numbers), *every)
    data += bytes(-len(data) % 4)
    position = len(data)
    data += struct.pack("<i", position - vtable) + bytes(4 * len(numbers))
    for number, place in places.items():
        value = node.fields[number]
        if isinstance(value, Scalar):
            struct.pack_into("<" + value.form, data, position + place, value.value)
        else:
            waiting.append((position + place, value))
    return position


_IDENTIFIER = b"TOSA"
_ATTRIBUTES = {name.lower(): value for name, value in vars(Attribute).items() if not name.startswith("_")}
_NUMBER_OF_DTYPE = {name: number for number, name in DTYPES.items()}


@dataclass(eq=False)
class DraftOperator:
    """An operator of the draft.

    Attributes:
        op: TOSA's name.
        inputs, outputs: names of tensors and shapes.
        index: of the operator of the old program that it is, or that it was made for.
        attribute: its attribute's fields by number if they are new, else None: as in the old program.
        raw: the operator in the old program whose attribute (if it is not new) and location this one has.
    """

    op: str
    inputs: list[str]
    outputs: list[str]
    index: int
    raw: Any
    attribute: dict[int, Scalar | Node] | None = None

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant, of data or of a shape."""
        return self.op in CONSTANTS

    @property
    def old_attribute(self) -> Any:
        """The attribute in the old program, as an object of its class in the `tosa` package."""
        return attribute_of(self.raw)


@dataclass(eq=False)
class DraftTensor:
    """A tensor: its shape, its TOSA type, and its table in the old program, or the data of a new constant."""

    shape: tuple[int, ...]
    dtype: str
    raw: Any = None
    data: bytes | None = None
    changed: bool = False


@dataclass(eq=False)
class DraftBlock:
    """One region's block. `operators` are in execution order."""

    name: str
    raw: Any
    operators: list[DraftOperator]
    tensors: dict[str, DraftTensor]
    inputs: tuple[str, ...]
    outputs: list[str]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    changed: bool = False

    def replace_outputs(self, names: Sequence[str]) -> None:
        """Make these tensors the outputs."""
        self.outputs = list(names)
        self.changed = True

    def producer(self, name: str) -> DraftOperator | None:
        """Return the operator that makes a tensor; None for an input."""
        return next((node for node in self.operators if name in node.outputs), None)

    def producer_behind(self, name: str, passed: Collection[str]) -> DraftOperator | None:
        """Return the operator that makes a tensor, with operators of these names passed over; None for an input."""
        writer = self.producer(name)
        while writer is not None and writer.op in passed:
            writer = self.producer(writer.inputs[0])
        return writer

    def readers(self, name: str) -> list[DraftOperator]:
        """Return the operators that read a tensor, in order."""
        return [node for node in self.operators if name in node.inputs]

    def only_reader(self, name: str) -> DraftOperator | None:
        """Return the operator that reads a tensor if it is the only one and the tensor is not an output; else None."""
        readers = self.readers(name)
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

    def only_reader_behind(self, name: str, passed: Collection[str]) -> DraftOperator | None:
        """Return what `only_reader` does, with operators of these names passed over."""
        reader = self.only_reader(name)
        while reader is not None and reader.op in passed:
            reader = self.only_reader(reader.outputs[0])
        return reader

    def data(self, name: str) -> bytes | None:
        """Return the bytes of a constant tensor, as the program has them; None for anything else."""
        tensor, writer = self.tensors.get(name), self.producer(name)
        if tensor is None or writer is None or writer.op != "CONST":
            return None
        return tensor.data if tensor.data is not None else np.asarray(tensor.raw.DataAsNumpy(), np.uint8).tobytes()

    def constant(self, name: str) -> np.ndarray | None:
        """Return the values of a constant tensor of int8, int16 or int32; None for anything else."""
        data = self.data(name)
        form = {"INT8": np.int8, "INT16": np.int16, "INT32": np.int32}.get(self.tensors[name].dtype) if data else None
        if data is None or form is None:
            return None
        shape = self.tensors[name].shape
        return np.frombuffer(data, form)[: math.prod(shape)].reshape(shape)

    def new_name(self, stem: str) -> str:
        """Return a name that nothing has."""
        taken = {*self.tensors, *(name for operator in self.operators for name in operator.outputs)}
        number = 0
        while (name := f"{stem}_repair{number}") in taken:
            number += 1
        return name

    def tensor(self, stem: str, shape: Sequence[int], dtype: str) -> str:
        """Add a tensor and return its name."""
        name = self.new_name(stem)
        self.tensors[name] = DraftTensor(tuple(shape), dtype)
        return name

    def set_shape(self, name: str, shape: Sequence[int]) -> None:
        """Give a tensor another shape."""
        tensor = self.tensors[name]
        tensor.shape, tensor.changed = tuple(shape), True
        self.changed = True

    def add(
        self,
        before: DraftOperator,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attribute: dict[int, Scalar | Node] | None = None,
        *,
        like: DraftOperator | None = None,
        after: bool = False,
    ) -> DraftOperator:
        """Add an operator next to another one; it is attributed to the same place of the model.

        Args:
            before: the operator before which it is run.
            op: TOSA's name.
            inputs: names of tensors and shapes.
            outputs: names of tensors that exist.
            attribute: the attribute's fields by their number in the schema.
            like: take the attribute of this operator instead.
            after: run it after that operator.
        """
        source = like or before
        fields = attribute if like is None else like.attribute
        if like is None and fields is None:
            fields = {}
        operator = DraftOperator(op, list(inputs), list(outputs), before.index, source.raw, fields)
        at = self.operators.index(before) + (1 if after else 0)
        self.operators.insert(at, operator)
        self.changed = True
        return operator

    def shape(self, before: DraftOperator, values: Sequence[int]) -> str:
        """Add a constant shape and return its name."""
        name = self.new_name("shape")
        self.shapes[name] = tuple(values)  # the operator that is added makes the name a taken one
        self.add(before, "CONST_SHAPE", [], [name])
        return name

    def const(self, before: DraftOperator, values: np.ndarray, dtype: str) -> str:
        """Add a constant tensor and return its name."""
        name = self.tensor("const", values.shape, dtype)
        self.tensors[name].data = np.ascontiguousarray(values).tobytes()
        self.add(before, "CONST", [], [name])
        return name

    def fold(self, operator: DraftOperator, values: np.ndarray) -> None:
        """Make an operator a CONST of what it computes."""
        tensor = self.tensors[operator.outputs[0]]
        tensor.raw, tensor.data = None, np.ascontiguousarray(values).tobytes()
        operator.op, operator.inputs, operator.attribute = "CONST", [], {}
        self.changed = True

    def reshape(self, before: DraftOperator, source: str, shape: Sequence[int]) -> str:
        """Add a RESHAPE and return what it makes."""
        result = self.tensor(source, shape, self.tensors[source].dtype)
        self.add(before, "RESHAPE", [source, self.shape(before, shape)], [result])
        return result

    def transpose(self, before: DraftOperator, source: str, axes: Sequence[int]) -> str:
        """Add a TRANSPOSE and return what it makes."""
        tensor = self.tensors[source]
        result = self.tensor(source, [tensor.shape[axis] for axis in axes], tensor.dtype)
        self.add(before, "TRANSPOSE", [source], [result], {0: Numbers(tuple(axes))})
        return result

    def slice(self, before: DraftOperator, source: str, start: Sequence[int], size: Sequence[int]) -> str:
        """Add a SLICE and return what it makes."""
        result = self.tensor(source, size, self.tensors[source].dtype)
        self.add(before, "SLICE", [source, self.shape(before, start), self.shape(before, size)], [result])
        return result

    def remove(self, operator: DraftOperator) -> None:
        """Remove an operator whose outputs nothing reads, and the tensors it makes."""
        self.operators.remove(operator)
        for name in operator.outputs:
            self.tensors.pop(name, None)
            self.shapes.pop(name, None)
        self.changed = True


class TosaDraft:
    """A program that is being rewritten; `finish` returns the new one."""

    def __init__(self, tosa: bytes) -> None:
        self._data = tosa
        self._root = Buffer.GetRootAs(tosa, 0)
        self.blocks = [
            _block(self._root.Regions(number).Blocks(0), name, graph)
            for number, (name, graph) in enumerate(TosaGraph.regions(tosa).items())
        ]

    def finish(self) -> bytes:
        """Return the new program; the old one's bytes if nothing changed."""
        if not any(block.changed for block in self.blocks):
            return self._data
        regions: list[Node] = [
            NewTable({0: block.name, 1: Items([_write(block)])})
            if block.changed
            else Old(self._root.Regions(number)._tab.Pos)
            for number, block in enumerate(self.blocks)
        ]
        fields: dict[int, Scalar | Node] = {0: Old(self._root.Version()._tab.Pos), 1: Items(regions)}
        return in_front(NewTable(fields), _IDENTIFIER, self._data)


def _block(raw: Any, name: str, graph: TosaGraph) -> DraftBlock:
    operators = [
        DraftOperator(node.op, list(node.inputs), list(node.outputs), node.index, raw.Operators(node.index))
        for node in graph.operators
    ]
    tables = (raw.Tensors(index) for index in range(raw.TensorsLength()))
    tensors = {
        name: DraftTensor(graph.tensors[name].shape, graph.tensors[name].dtype, table)
        for table, name in ((table, table.Name().decode()) for table in tables)
    }
    return DraftBlock(
        name, raw, operators, tensors, tuple(part.name for part in graph.inputs), [part.name for part in graph.outputs]
    )


def _write(block: DraftBlock) -> NewTable:
    raw = block.raw
    kept = {name for operator in block.operators for name in operator.outputs}
    shapes: list[Node] = [
        Old(table._tab.Pos) for table in map(raw.Shapes, range(raw.ShapesLength())) if table.Name().decode() in kept
    ]
    shapes += [
        NewTable({0: name, 1: Scalar("I", len(values)), 2: ByteVector(struct.pack(f"<{len(values)}q", *values))})
        for name, values in block.shapes.items()
    ]
    return NewTable(
        {
            0: raw.Name().decode(),
            1: Items([_operator(node) for node in block.operators]),
            2: Items([_tensor(name, tensor) for name, tensor in block.tensors.items()]),
            3: Items(list(block.inputs)),
            4: Items(list(block.outputs)),
            5: Items(shapes),
        }
    )


def _operator(operator: DraftOperator) -> Node:
    raw = operator.raw
    fields: dict[int, Scalar | Node] = {0: Scalar("I", getattr(Op, operator.op))}
    if operator.attribute is not None:
        kind = _ATTRIBUTES[operator.op.replace("_", "").lower() + "attribute"]
        fields |= {1: Scalar("B", kind), 2: NewTable(operator.attribute)}
    elif raw.Attribute() is not None:
        fields |= {1: Scalar("B", raw.AttributeType()), 2: Old(raw.Attribute().Pos)}
    fields |= {3: Items(list(operator.inputs)), 4: Items(list(operator.outputs))}
    if raw.Location() is not None:
        fields[5] = Old(raw.Location()._tab.Pos)
    return NewTable(fields)


def _tensor(name: str, tensor: DraftTensor) -> Node:
    if tensor.raw is not None and not tensor.changed:
        return Old(tensor.raw._tab.Pos)
    fields: dict[int, Scalar | Node] = {
        0: name,
        1: Numbers(tensor.shape),
        2: Scalar("I", _NUMBER_OF_DTYPE[tensor.dtype]),
    }
    if tensor.data is not None:
        fields[3] = ByteVector(tensor.data)
    elif tensor.raw is not None and tensor.raw.DataLength():
        table = tensor.raw._tab
        fields[3] = Old(table.Vector(table.Offset(10)) - 4)
    return NewTable(fields)
