"""The loadable segments of an ELF for Arm, read without a library, whose import would delay the start of a board; and
an image as files for the memory card of an MPS3 or MPS4 board, whose controller loads it before a program starts.

images.txt tells the controller which file goes where. Its format, and that file names are short ones (8.3), are from
public files of that name: see the sources in harness/socs.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import read_text
from ethos_hil.harness.image.formats import Mailbox
from ethos_hil.harness.socs.soc import CardWindow, ImageCard, Soc

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

    def read(self, file: BinaryIO) -> bytes:
        """Return its bytes in the file."""
        file.seek(self.offset)
        return file.read(self.file_size)


def contents(file: BinaryIO, loaded: Iterable[Segment]) -> list[tuple[int, bytes]]:
    """Return what a loader puts into memory: addresses, and the bytes there, in the order of `loaded`."""
    return [(segment.load_address, segment.read(file)) for segment in loaded if segment.file_size]


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


IMAGES = "images.txt"
_MARK = "; Written by ethos-hil."
_MOST_IMAGES = 32
_MOST_TEXT = 64 << 10
"""Bytes of an images.txt that is looked at."""
_NAME = re.compile(r"^IMAGE\d+FILE: \\SOFTWARE\\([A-Z0-9]{1,8}\.BIN)\s*$", re.MULTILINE)


def card_files(elf: bytes, soc: Soc) -> Mapping[str, bytes]:
    """Return images.txt, and a file with the bytes of each loadable segment, by name.

    A segment without bytes in the file is not among them: start-up code fills it. Nor is the monitor's mailbox, which
    asks for nothing.

    Args:
        elf: a packed image.
        soc: the system on chip that it is for.

    Raises:
        UsageError: the board's controller cannot load it: it is not known, or does not reach an address.
        ToolError: it is not an ELF that can be loaded.
    """
    if soc.card is None:
        raise UsageError(f"how a board with a {soc.name} loads images is not known", hint="use --format elf")
    file = io.BytesIO(elf)
    try:
        # An empty mailbox is not needed: with whatever memory has at power-up, its checksum is wrong.
        loaded = [(address, data) for address, data in contents(file, segments(file)) if data != bytes(Mailbox.size)]
    except ElfError as error:
        raise ToolError(f"the image cannot be loaded: {error}", hint="run `make firmware`") from error
    if len(loaded) > _MOST_IMAGES:
        raise ToolError(f"the image has {len(loaded)} segments; a board loads {_MOST_IMAGES}")
    files: dict[str, bytes] = {}
    lines = [
        f"TITLE: {soc.name} on {soc.card.fpga}",
        _MARK + f" Copy the .BIN files into SOFTWARE, and this file into the folder of {soc.card.fpga}.",
        "",
        "[IMAGES]",
        f"TOTALIMAGES: {len(loaded)}",
    ]
    for number, (address, data) in enumerate(sorted(loaded)):
        name = f"HIL{number}.BIN"
        files[name] = data
        lines += ["", *_entry(number, name, address, len(data), soc.card)]
    return {IMAGES: "\r\n".join([*lines, ""]).encode("ascii"), **files}


def _entry(number: int, name: str, address: int, size: int, card: ImageCard) -> list[str]:
    window = _window(address, size, card)
    offset = window.offset_of(address)
    assert offset is not None
    lines = [
        f"IMAGE{number}ADDRESS: {_address(window.controller + offset, card.digits)} ; 0x{address:08x} of the processor",
        f"IMAGE{number}UPDATE: {card.update}",
        f"IMAGE{number}FILE: \\SOFTWARE\\{name}",
    ]
    return lines if window.port is None else [f"IMAGE{number}PORT: {window.port}", *lines]


def _window(address: int, size: int, card: ImageCard) -> CardWindow:
    for window in card.windows:
        if window.holds(address, size):
            return window
    near = next((window for window in card.windows if window.offset_of(address) is not None), None)
    why = "does not write there" if near is None else f"writes {near.size:,} bytes from 0x{near.base:08x} on"
    raise UsageError(
        f"the image has {size:,} bytes at 0x{address:08x}; the controller of a board with {card.fpga} {why}",
        hint="a smaller program or fewer inputs" if near is not None else "use --format elf, and a debug probe",
    )


def _address(address: int, digits: int) -> str:
    text = f"{address:0{digits}x}"
    if digits <= 8:
        return f"0x{text}"
    return "0x" + "_".join((text[0:2], text[2:4], *(text[at : at + 4] for at in range(4, digits, 4))))


def our_files(folder: Path) -> frozenset[str]:
    """Return the names of the files in a folder that `card_files` made; none where another program wrote images.txt."""
    try:
        text = read_text(folder / IMAGES, most=_MOST_TEXT)
    except (OSError, ValueError):
        return frozenset()
    return frozenset({IMAGES, *_NAME.findall(text)}) if _MARK in text else frozenset()
