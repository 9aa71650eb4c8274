"""A reader for flatbuffers that may be damaged, driven by the schema file itself.

A .pte may come from anywhere, and neither flatbuffers' Python runtime nor the generated classes check what they read.
This reader checks every offset and length against the file before it follows it, and bounds the total work, so that no
input makes it crash or hang. It takes the layout from the `.fbs` text that ships with ExecuTorch. The firmware's reader
is generated from the same file, so there is no second description of the format.

This is not a general flatbuffers implementation: it knows tables, enums, unions, strings and vectors of these, which is
all that `program.fbs` uses; no structs, no fixed-size arrays, no keys.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from ethos_hil.base.dataclasses import dataclass

_SCALARS = {
    "bool": "?", "byte": "b", "ubyte": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "long": "q",
    "ulong": "Q", "float": "f", "double": "d", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i",
    "uint32": "I", "int64": "q", "uint64": "Q",
}  # fmt: skip
_MAX_DEPTH = 64

Record = dict[str, Any]
"""A table: its fields by name. Absent strings, vectors, tables and unions are None; absent scalars their default."""


class FlatbufferError(ValueError):
    """The bytes are not a buffer of this schema. The message says where and why."""


@dataclass(frozen=True)
class _Field:
    name: str
    slot: int  # of a union: the slot of its value; the slot before it has its type
    type: str
    vector: bool
    default: int | float


@dataclass(frozen=True)
class Schema:
    """Tables, enums and unions of one or more `.fbs` texts."""

    tables: dict[str, tuple[_Field, ...]]
    enums: dict[str, dict[str, int]]
    enum_types: dict[str, str]
    unions: dict[str, tuple[str, ...]]

    @classmethod
    def parse(cls, *texts: str) -> Schema:
        """Return the schema that the texts declare together. Raises ValueError for a construct it does not know."""
        text = re.sub(r"//[^\n]*", "", "\n".join(texts))
        enums: dict[str, dict[str, int]] = {}
        enum_types: dict[str, str] = {}
        for name, base, body in re.findall(r"\benum\s+(\w+)\s*:\s*(\w+)\s*\{([^}]*)\}", text):
            members: dict[str, int] = {}
            following = 0
            for member in filter(None, (part.strip() for part in body.split(","))):
                key, _, value = (part.strip() for part in member.partition("="))
                members[key] = int(value, 0) if value else following
                following = members[key] + 1
            enums[name], enum_types[name] = members, base
        unions = {
            name: tuple(filter(None, (part.strip() for part in body.split(","))))
            for name, body in re.findall(r"\bunion\s+(\w+)\s*\{([^}]*)\}", text)
        }
        tables: dict[str, tuple[_Field, ...]] = {}
        for name, body in re.findall(r"\btable\s+(\w+)\s*\{([^}]*)\}", text):
            fields: list[_Field] = []
            slot = 0
            for declaration in filter(None, (part.strip() for part in body.split(";"))):
                match = re.fullmatch(r"(\w+)\s*:\s*(\[?)(\w+)(\]?)\s*(?:=\s*(\S+))?\s*(?:\([^)]*\))?", declaration)
                if match is None or bool(match[2]) != bool(match[4]):
                    raise ValueError(f"{name}: cannot read the declaration {declaration!r}")
                kind, value = match[3], match[5]
                default: int | float = 0
                if value is not None:
                    default = enums[kind][value] if kind in enums else float(value) if "." in value else int(value, 0)
                slot += kind in unions
                fields.append(_Field(match[1], slot, kind, bool(match[2]), default))
                slot += 1
            tables[name] = tuple(fields)
        return cls(tables, enums, enum_types, unions)

    def read(self, root: str, data: bytes | memoryview) -> Record:
        """Return the whole buffer as nested records.

        Vectors become tuples, but vectors of ubyte become memoryviews of `data`; strings are str; a union is a pair
        (member name, record). Raises FlatbufferError.
        """
        return _Reader(self, data).root(root)


class _Reader:
    def __init__(self, schema: Schema, data: bytes | memoryview) -> None:
        self._schema = schema
        self._data = memoryview(data).toreadonly()
        # Objects may be shared, so a small file could describe an endless tree; real files stay far below this.
        self._budget = 4 * len(data) + 4096

    def root(self, name: str) -> Record:
        return self._table(name, self._offset(0), 0)

    def _spend(self, amount: int) -> None:
        self._budget -= amount
        if self._budget < 0:
            raise FlatbufferError("the same bytes are referred to again and again")

    def _get(self, code: str, at: int) -> Any:
        try:
            return struct.unpack_from("<" + code, self._data, at)[0]
        except struct.error:
            raise FlatbufferError(f"byte {at} lies beyond the end ({len(self._data)} bytes)") from None

    def _offset(self, at: int) -> int:
        """Return the position that the unsigned offset stored at `at` leads to."""
        target = at + int(self._get("I", at))
        if target == at or target >= len(self._data):
            raise FlatbufferError(f"the offset at byte {at} leads to byte {target} of {len(self._data)}")
        return target

    def _table(self, name: str, at: int, depth: int) -> Record:
        if depth > _MAX_DEPTH:
            raise FlatbufferError("tables are nested too deeply")
        vtable = at - int(self._get("i", at))
        if vtable < 0:
            raise FlatbufferError(f"table {name} at byte {at} has its field list at byte {vtable}")
        size, table_size = int(self._get("H", vtable)), int(self._get("H", vtable + 2))
        if size < 4 or size % 2 or vtable + size > len(self._data) or at + table_size > len(self._data):
            raise FlatbufferError(f"table {name} at byte {at} has a malformed field list")
        fields = self._schema.tables[name]
        self._spend(4 + len(fields))

        def position(slot: int) -> int | None:
            entry = 4 + 2 * slot
            offset = int(self._get("H", vtable + entry)) if entry + 2 <= size else 0
            if offset and not 4 <= offset < table_size:
                raise FlatbufferError(f"table {name} at byte {at} keeps a field at {offset} of {table_size} bytes")
            return at + offset if offset else None

        record: Record = {}
        for field in fields:
            where = position(field.slot)
            if field.type in self._schema.unions and not field.vector:
                record[field.name] = self._union(field.type, position(field.slot - 1), where, depth)
            elif where is None:
                reference = field.vector or field.type == "string" or field.type in self._schema.tables
                record[field.name] = None if reference else field.default
            elif field.vector:
                record[field.name] = self._vector(field.type, self._offset(where), depth)
            else:
                record[field.name] = self._single(field.type, where, depth)
        return record

    def _single(self, kind: str, at: int, depth: int) -> Any:
        if kind in self._schema.tables:
            return self._table(kind, self._offset(at), depth + 1)
        if kind == "string":
            return self._string(self._offset(at))
        return self._get(self._code(kind), at)

    def _code(self, kind: str) -> str:
        code = _SCALARS.get(self._schema.enum_types.get(kind, kind))
        if code is None:
            raise ValueError(f"the schema uses {kind!r}, which it does not declare")
        return code

    def _union(self, name: str, type_at: int | None, at: int | None, depth: int) -> tuple[str, Record] | None:
        number = int(self._get("B", type_at)) if type_at is not None else 0
        if number == 0:
            return None
        members = self._schema.unions[name]
        if number > len(members) or at is None:
            raise FlatbufferError(f"{name} of type {number} at byte {type_at}, known are 1 to {len(members)}")
        member = members[number - 1]
        return member, self._table(member, self._offset(at), depth + 1)

    def _extent(self, at: int, element: int) -> tuple[int, int]:
        """Return first byte and count of the vector at `at`."""
        count = int(self._get("I", at))
        if count * element > len(self._data) - at - 4:
            raise FlatbufferError(
                f"{count} elements of {element} bytes at byte {at} do not fit {len(self._data)} bytes"
            )
        return at + 4, count

    def _string(self, at: int) -> str:
        start, count = self._extent(at, 1)
        self._spend(count)
        try:
            return str(self._data[start : start + count], "utf-8")
        except UnicodeDecodeError:
            raise FlatbufferError(f"the string at byte {start} is not UTF-8") from None

    def _vector(self, kind: str, at: int, depth: int) -> Any:
        if kind == "ubyte":
            start, count = self._extent(at, 1)
            return self._data[start : start + count]
        if kind in self._schema.tables or kind == "string":
            start, count = self._extent(at, 4)
            self._spend(count)
            return tuple(self._single(kind, start + 4 * index, depth) for index in range(count))
        code = self._code(kind)
        start, count = self._extent(at, struct.calcsize(code))
        self._spend(count)
        return struct.unpack_from(f"<{count}{code}", self._data, start)
