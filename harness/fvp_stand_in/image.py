"""The contents of the virtual board's memory at the start: the application and `--data`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.harness.fvp_stand_in.command_line import DataFile, LaunchSettings
from ethos_hil.harness.image.segments import ElfError, Segment, segments
from ethos_hil.harness.socs.soc import Memory
from ethos_hil.harness.virtual.address_map import needed
from ethos_hil.harness.virtual.mps3_an547 import missing
from ethos_hil.harness.virtual.semihosting import AnsweredCalls


class ImageError(Exception):
    """A file that cannot be loaded. The message says what and why."""


@dataclass(frozen=True)
class LaunchImage:
    """The image that QEMU is started with.

    Attributes:
        elf: the application, or its path if it is unchanged.
        data: further files to load, and their addresses.
        answered: the semihosting calls that the host answers, or None without semihosting.
        added: a memory of the system that QEMU's machine lacks and that the run needs, or None.
    """

    elf: bytes | Path
    data: tuple[tuple[Path, int], ...]
    answered: AnsweredCalls | None
    added: Memory | None = None


def load(settings: LaunchSettings) -> LaunchImage:
    """Return the image that `settings` ask for.

    Raises:
        ImageError: a file is missing or unusable, or has bytes where the board has no memory.
    """
    path = settings.application
    try:
        with path.open("rb") as file:
            loaded = segments(file)
            answered = settings.semihosting.answered(file, loaded) if settings.semihosting is not None else None
    except OSError as error:
        raise ImageError(f"the application {path} cannot be read: {error.strerror}") from None
    except ElfError as error:
        raise ImageError(f"the application {path} cannot be run: {error}") from None
    for segment in loaded:
        for address, size in {(segment.load_address, segment.file_size), (segment.address, segment.memory_size)}:
            why = missing(address, size, settings.model.soc) if size else None
            if why is not None:
                raise ImageError(f"the application {path} has {size} bytes at 0x{address:08x}: {why}")
    for dump in settings.dumps:
        why = missing(dump.address, dump.size, settings.model.soc)
        if why is not None:
            raise ImageError(f"--dump {dump.path} asks for {dump.size} bytes at 0x{dump.address:08x}: {why}")
    elf, data = _with_data(path, loaded, settings)
    return LaunchImage(elf, data, answered, needed(_places(loaded, settings), settings.model.soc))


def _places(loaded: Sequence[Segment], settings: LaunchSettings) -> list[tuple[int, int]]:
    """Return address and bytes of everything that is in memory at the start, or read at the end."""
    places = [(part.address, part.memory_size) for part in loaded]
    places += [(part.load_address, part.file_size) for part in loaded]
    places += [(data.address, _size(data)) for data in settings.data]
    return places + [(dump.address, dump.size) for dump in settings.dumps]


def _with_data(
    path: Path, loaded: Sequence[Segment], settings: LaunchSettings
) -> tuple[bytes | Path, tuple[tuple[Path, int], ...]]:
    """Return the application with the data that lies within its own bytes, and the rest of the data.

    QEMU loads no address twice, so data within the application must replace its bytes.
    """
    elf: bytearray | None = None
    separate = []
    for data in settings.data:
        size = _size(data)
        why = missing(data.address, size, settings.model.soc)
        if why is not None:
            raise ImageError(f"the data file {data.path} has {size} bytes at 0x{data.address:08x}: {why}")
        overlapping = [s for s in loaded if _overlap(s, data.address, size)]
        if not overlapping:
            separate.append((data.path, data.address))
            continue
        place = overlapping[0]
        offset = data.address - place.load_address
        if len(overlapping) > 1 or offset < 0 or offset + size > place.file_size:
            raise ImageError(
                f"the data file {data.path} at 0x{data.address:08x} is partly in the application's segment at "
                f"0x{place.load_address:08x} and partly outside; load it elsewhere"
            )
        elf = bytearray(path.read_bytes()) if elf is None else elf
        elf[place.offset + offset : place.offset + offset + size] = data.path.read_bytes()
    return bytes(elf) if elf is not None else path, tuple(separate)


def _size(data: DataFile) -> int:
    try:
        with data.path.open("rb") as file:
            return file.seek(0, os.SEEK_END)
    except OSError as error:
        raise ImageError(f"the data file {data.path} cannot be read: {error.strerror}") from None


def _overlap(segment: Segment, address: int, size: int) -> bool:
    return segment.load_address < address + size and address < segment.load_address + segment.file_size
