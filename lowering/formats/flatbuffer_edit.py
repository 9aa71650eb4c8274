"""In-place editing of a flatbuffer: new lists and names are appended, everything else stays where it is.

Offsets in a flatbuffer only point forward, so any of them can point to appended data, and large vectors (weights) are
neither parsed nor copied piece by piece.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any


class FlatbufferEditor:
    """A flatbuffer whose fields get new values; `data` is the result."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)

    def reorder(self, table: Any, field: int, positions: Sequence[int]) -> None:
        """Make the elements of a vector of tables, in order, those at `positions`."""
        start = table.Vector(table.Offset(field))
        for number, position in enumerate(positions):
            self._point(start + 4 * number, position)

    def keep(self, table: Any, field: int, positions: Sequence[int]) -> None:
        """Make a vector of tables those at `positions`, at most as many as it has."""
        self.reorder(table, field, positions)
        struct.pack_into("<I", self.data, table.Vector(table.Offset(field)) - 4, len(positions))

    def set_names(self, table: Any, field: int, names: Sequence[str]) -> None:
        """Give an existing field a new vector of strings."""
        start = self._vector(table, field, [0] * len(names))
        for number, name in enumerate(names):
            encoded = name.encode()
            self._point(start + 4 * number, self._append(struct.pack("<I", len(encoded)) + encoded + b"\0"))

    def set_numbers(self, table: Any, field: int, numbers: Sequence[int]) -> None:
        """Give an existing field a new vector of int32."""
        self._vector(table, field, numbers)

    def _vector(self, table: Any, field: int, numbers: Sequence[int]) -> int:
        """Append a vector, point the field to it, and return the position of its first element."""
        if not table.Offset(field):
            raise ValueError(
                f"a table of the TOSA program lacks field {field}"
            )  # never happens for the lists edited here
        position = self._append(struct.pack(f"<I{len(numbers)}i", len(numbers), *numbers))
        self._point(table.Pos + table.Offset(field), position)
        return position + 4

    def _append(self, data: bytes) -> int:
        self.data += bytes(-len(self.data) % 4)
        position = len(self.data)
        self.data += data
        return position

    def _point(self, at: int, target: int) -> None:
        struct.pack_into("<I", self.data, at, target - at)
