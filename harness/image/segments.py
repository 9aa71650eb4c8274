"""The loadable segments of an ELF for Arm, read without a library, whose import would delay the start of a board."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import BinaryIO

from ethos_hil.base.dataclasses import dataclass

# Layouts of ELF32 little-endian (System V ABI, chapters 4 and 5).
_EHDR = struct.Struct("<16sHHIIIIIHHHHHH")
_PHDR = struct.Struct("<IIIIIIII")
_IDENTIFICATION = b"\x7fELF\x01\x01"
_EM_ARM, _PT_LOAD, _PF_X, _PF_W = 40, 1, 1, 2
_MOST_SEGMENTS = 1000
"""Linkers make a handful; a file has room for 65,535, each with the same megabytes."""


class ElfError(Exception):
    """The file is not an ELF that a Cortex-M can run. The message says what was found."""


@dataclass(frozen=True)
class Segment:
    """A loadable segment.

    Attributes:
        offset: byte offset of its data in the file.
        address: its address when the program runs.
        load_address: the address that its bytes are loaded to.
        file_size: bytes in the file.
        memory_size: bytes in memory.
        executable: whether it may contain code.
        writable: whether it may change.
    """

    offset: int
    address: int
    load_address: int
    file_size: int
    memory_size: int
    executable: bool
    writable: bool = False

    @property
    def places(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Address and bytes of what is loaded, and of what is in memory when the program runs."""
        return (self.load_address, self.file_size), (self.address, self.memory_size)

    def read(self, file: BinaryIO) -> bytes:
        """Return its bytes in the file."""
        file.seek(self.offset)
        return file.read(self.file_size)


def contents(file: BinaryIO, loaded: Iterable[Segment]) -> list[tuple[int, bytes]]:
    """Return what a loader puts into memory: addresses, and the bytes there, in the order of `loaded`."""
    return [(segment.load_address, segment.read(file)) for segment in loaded if segment.file_size]


def code_of(loaded: Iterable[Segment]) -> tuple[range, ...]:
    """Return the addresses of a program's code."""
    return tuple(range(part.address, part.address + part.memory_size) for part in loaded if part.executable)


def segments(file: BinaryIO) -> tuple[Segment, ...]:
    """Return the loadable segments of `file`, without those that are empty in memory.

    Raises:
        ElfError: it is not a 32-bit little-endian ELF for Arm, is cut off, has nothing to load or too much, or has two
            segments that load to the same addresses.
    """
    file.seek(0, 2)
    length = file.tell()
    file.seek(0)
    header = file.read(_EHDR.size)
    if header[: len(_IDENTIFICATION)] != _IDENTIFICATION or len(header) < _EHDR.size:
        raise ElfError("it is not a 32-bit little-endian ELF file")
    _, _, machine, _, _, table, _, _, _, entry_size, count, *_ = _EHDR.unpack(header)
    if machine != _EM_ARM:
        raise ElfError(f"it is for another processor (ELF machine {machine}), not for Arm")
    if entry_size != _PHDR.size or table + count * _PHDR.size > length:
        raise ElfError("its program headers are damaged")
    file.seek(table)
    parts = []
    for entry in _PHDR.iter_unpack(file.read(count * _PHDR.size)):
        kind, offset, address, load_address, file_size, memory_size, flags, _ = entry
        if kind != _PT_LOAD or not memory_size:
            continue
        if offset + file_size > length or file_size > memory_size:
            raise ElfError(f"its segment at 0x{address:08x} reaches past the end of the file")
        executable, writable = bool(flags & _PF_X), bool(flags & _PF_W)
        parts.append(Segment(offset, address, load_address, file_size, memory_size, executable, writable))
    if not parts:
        raise ElfError("it has no loadable segment")
    if len(parts) > _MOST_SEGMENTS:
        raise ElfError(f"it has {len(parts):,} loadable segments, at most {_MOST_SEGMENTS:,} are loaded")
    in_file = sorted((segment for segment in parts if segment.file_size), key=lambda segment: segment.load_address)
    for segment, following in pairwise(in_file):
        if following.load_address < segment.load_address + segment.file_size:
            raise ElfError(f"two of its segments load to 0x{following.load_address:08x}")
    return tuple(parts)
