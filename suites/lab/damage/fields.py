"""Programs as trees of named fields, read and written by flatc. An edited program is a sound flatbuffer."""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.upstream.names.schemas import schema_folder

_MAGIC = b"eh00"
_HEADER = struct.Struct("<4sIQQQ")  # magic, length of this header, size of the flatbuffer, start and size of segments
_HEADER_AT = 8  # behind root offset and identifier
_SEGMENT_ALIGNMENT = 128  # ExecuTorch's default


@cache
def _tools() -> tuple[Path, Path]:
    """Find flatc of tosa-tools and executorch's schema, as firmware/cmake/find_schema.py does."""
    schema = schema_folder() / "program.fbs"
    flatc = schema.parents[3] / "bin" / "flatc"
    if not flatc.is_file():
        raise ToolError(f"flatc is missing: {flatc} does not exist", hint="it comes with executorch[ethos-u]")
    return flatc, schema


def read(pte: bytes) -> Any:
    """Return the flatbuffer's root table: dicts, lists and scalars."""
    flatc, schema = _tools()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.pte")
        file.write_bytes(pte)
        options = ["--json", "--strict-json", "--raw-binary", "-o", folder]
        subprocess.run([flatc, *options, schema, "--", file], check=True, capture_output=True, timeout=60)
        return json.loads(file.with_suffix(".json").read_text("latin-1"))


def write(root: Any, original: bytes) -> bytes | None:
    """Return the .pte of a tree, with the segments of `original`; None when the tree does not fit the schema."""
    flatc, schema = _tools()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.json")
        file.write_text(json.dumps(root), "latin-1")
        done = subprocess.run([flatc, "-b", "-o", folder, schema, file], capture_output=True, timeout=60)
        if done.returncode:
            return None
        flatbuffer = file.with_suffix(".pte").read_bytes()
    if original[_HEADER_AT : _HEADER_AT + len(_MAGIC)] != _MAGIC:
        return flatbuffer
    _, length, _, base, _ = _HEADER.unpack_from(original, _HEADER_AT)
    segments = original[base:] if base else b""
    (root_offset,) = struct.unpack_from("<I", flatbuffer)
    size = len(flatbuffer) + length
    start = size + -size % _SEGMENT_ALIGNMENT
    header = _HEADER.pack(_MAGIC, length, size, start if segments else 0, len(segments)).ljust(length, b"\0")
    head = struct.pack("<I", root_offset + length) + flatbuffer[4:_HEADER_AT] + header[:length]
    whole = head + flatbuffer[_HEADER_AT:]
    return whole.ljust(start, b"\0") + segments if segments else whole
