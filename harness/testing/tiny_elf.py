"""An ELF for a Cortex-M that a loader can load, as small as can be; and a firmware without code."""

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


_SECTION = struct.Struct("<10I")
_SYMBOL = struct.Struct("<IIIBBH")
_ABSOLUTE = 0xFFF1


def with_sections(elf: bytes, sections: Mapping[str, bytes], symbols: Mapping[str, int]) -> bytes:
    """Return an ELF of `tiny_elf` with sections that are not loaded, and a table of symbols."""
    strings, table = b"\0", bytes(_SYMBOL.size)
    for name, value in symbols.items():
        table += _SYMBOL.pack(len(strings), value, 0, 0x10, 0, _ABSOLUTE)
        strings += name.encode() + b"\0"
    parts = {"": b"", **sections, ".symtab": table, ".strtab": strings, ".shstrtab": b""}
    starts, names = {}, b""
    for name in parts:
        starts[name] = len(names)
        names += name.encode() + b"\0"
    parts[".shstrtab"] = names
    headers, content = b"", b""
    kinds = {"": 0, ".symtab": 2, ".strtab": 3, ".shstrtab": 3}
    for name, data in parts.items():
        link, first, entry = (len(parts) - 2, 1, _SYMBOL.size) if name == ".symtab" else (0, 0, 0)
        place = len(elf) + len(content) if name else 0
        headers += _SECTION.pack(starts[name], kinds.get(name, 1), 0, 0, place, len(data), link, first, 1, entry)
        content += data
    fields = list(_HEADER.unpack_from(elf))
    fields[6], fields[12], fields[13] = len(elf) + len(content), len(parts), len(parts) - 1
    return _HEADER.pack(*fields) + elf[_HEADER.size :] + content + headers
