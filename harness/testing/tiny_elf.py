"""An ELF for a Cortex-M that a loader can load, as small as can be."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
_SEGMENT = struct.Struct("<8I")
_LOAD, _READ_EXECUTE, _READ_WRITE = 1, 5, 6


def tiny_elf(
    base: int, code: bytes, *, stack: int, entry: int, empty: tuple[int, int], parts: Mapping[int, bytes] | None = None
) -> bytes:
    """Return an ELF.

    Args:
        base: address of the vector table, of two words; the code follows.
        code: what is behind it.
        stack, entry: the vector table's words.
        empty: address and size of a segment of which the file has nothing.
        parts: more segments, by address.
    """
    table = struct.pack("<II", stack, entry) + code
    segments = [(base, table, len(table), _READ_EXECUTE)]
    segments += [(address, data, len(data), _READ_WRITE) for address, data in (parts or {}).items()]
    segments.append((empty[0], b"", empty[1], _READ_WRITE))
    begin = _HEADER.size + _SEGMENT.size * len(segments)
    headers, content = b"", b""
    for address, data, size, flags in segments:
        headers += _SEGMENT.pack(_LOAD, begin + len(content), address, address, len(data), size, flags, 4)
        content += data
    sizes = (_HEADER.size, _SEGMENT.size, len(segments), 40, 0, 0)
    return _HEADER.pack(b"\x7fELF\x01\x01\x01", 2, 40, 1, entry, _HEADER.size, 0, 0, *sizes) + headers + content
