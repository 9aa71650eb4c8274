"""An image as files for the memory card of an MPS3 or MPS4 board, whose controller loads it before a program starts.

images.txt tells the controller which file goes where. Its format, and that file names are short ones (8.3), are from
public files of that name: see the sources in harness/socs.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import read_text
from ethos_hil.harness.image.formats import Mailbox
from ethos_hil.harness.image.segments import ElfError, contents, segments
from ethos_hil.harness.socs.soc import CardWindow, ImageCard, Soc

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
