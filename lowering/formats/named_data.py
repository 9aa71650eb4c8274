"""Data that a program refers to by name: in the .pte itself, or in .ptd files beside it (ExecuTorch's FlatTensor).

Facts of the format: executorch 1.5.1, extension/flat_tensor/serialize/flat_tensor.fbs and serialize.py.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.formats.flatbuffer import FlatbufferError, Record, Schema
from ethos_hil.lowering.upstream.names.schemas import SCHEMAS, data_schema_file, schema_folder

_IDENTIFIER = b"FT01"
_HEADER = struct.Struct("<4sI4Q")
"""At byte 8: magic, its length, then offset and size of the flatbuffer, and of the segments."""
_MAGIC = b"FH01"
_VERSION = 0


@dataclass(frozen=True)
class NamedData:
    """Some bytes with a name.

    Attributes:
        data: the bytes.
        form: of a tensor's: ScalarType's number, sizes, and dim_order; else None.
    """

    data: bytes
    form: tuple[int, tuple[int, ...], tuple[int, ...]] | None = None


def read_ptd(data: bytes, where: str) -> dict[str, NamedData]:
    """Read and check a .ptd: what it has, by name. Raises UsageError, which says what is wrong with it.

    Args:
        data: the whole file.
        where: the file's name in an error.
    """
    try:
        return _read(data)
    except FlatbufferError as error:
        raise UsageError(
            f"{where}: not a usable .ptd: {error}", hint="give a complete .ptd of ExecuTorch 1.x"
        ) from None


def merge(files: Mapping[str, bytes]) -> dict[str, NamedData]:
    """Return what some .ptd files have together, by name. Raises UsageError where two differ, or one is damaged."""
    merged: dict[str, NamedData] = {}
    for where, data in files.items():
        for name, entry in read_ptd(data, where).items():
            if merged.setdefault(name, entry) != entry:
                raise UsageError(
                    f"{where} has other data under {name!r} than a .ptd before it", hint="give one of them"
                )
    return merged


@cache
def _schema() -> Schema:
    texts = (schema_folder() / SCHEMAS[0]).read_text("utf-8"), data_schema_file().read_text("utf-8")
    return Schema.parse(texts[0], texts[1].replace("executorch_flatbuffer.", ""))


def _read(data: bytes) -> dict[str, NamedData]:
    if data[4:8] != _IDENTIFIER:
        raise FlatbufferError(f"bytes 4 to 7 are {data[4:8]!r}, expected {_IDENTIFIER!r}")
    if len(data) < 8 + _HEADER.size:
        raise FlatbufferError(f"it ends inside its header, after {len(data)} bytes")
    magic, length, begin, size, base, available = _HEADER.unpack_from(data, 8)
    if magic != _MAGIC or length < _HEADER.size:
        raise FlatbufferError(f"its header starts with {magic!r} and claims {length} bytes")
    if begin + size > len(data) or base + available > len(data):
        raise FlatbufferError(f"it has {len(data)} bytes, its header claims {max(begin + size, base + available)}")
    record = _schema().read("FlatTensor", memoryview(data)[: begin + size])
    if record["version"] != _VERSION:
        raise FlatbufferError(f"it is of version {record['version']}, this program reads {_VERSION}")
    segments = [(part["offset"], part["size"]) for part in record["segments"] or ()]
    found: dict[str, NamedData] = {}
    for entry in record["named_data"] or ():
        name, index = entry["key"], entry["segment_index"]
        if not name or name in found:
            raise FlatbufferError(f"the name {name!r} is empty, or there twice")
        if index >= len(segments) or sum(segments[index]) > available:
            raise FlatbufferError(f"{name!r} is in segment {index}, which is not in the file")
        offset, size = segments[index]
        found[name] = NamedData(data[base + offset : base + offset + size], _form(entry["tensor_layout"]))
    return found


def _form(layout: Record | None) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    if layout is None:
        return None
    return layout["scalar_type"], tuple(layout["sizes"] or ()), tuple(layout["dim_order"] or ())
