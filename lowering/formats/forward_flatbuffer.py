"""New tables in front of an old flatbuffer, which they may refer to.

Offsets in a flatbuffer only point forward. So changed and new tables are laid out at the beginning, parents before
children, and the old bytes follow as they are: weights of any size are neither parsed nor copied piece by piece.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
