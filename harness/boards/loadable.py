"""What a debug probe loads: where a program starts, and the firmware without a package, told to stay on the board."""

from __future__ import annotations

import functools
import io
import zlib

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.harness.boards.monitor import mailbox
from ethos_hil.harness.image.pack import Clocks, PackageSlot
from ethos_hil.harness.image.segments import ElfError, Segment, contents, segments

_TABLE_ALIGNMENT = 128
"""VTOR has no lower bits (Armv8-M Architecture Reference Manual, VTOR)."""
_HINT = "does the firmware belong to this board? `ethos-hil boards check` compares a board's file with its firmware"


@dataclass(frozen=True)
class StartPoint:
    """Where a program starts.

    Attributes:
        vector_table: address of its vector table.
        stack: where its stack pointer starts: the table's first word.
        entry: address of its first instruction: the table's second word, without bit 0.
    """

    vector_table: int
    stack: int
    entry: int


@dataclass(frozen=True)
class LoadableImage:
    """What a loader needs of an ELF.

    Attributes:
        parts: what goes into memory: addresses, and the bytes there, by address.
        segments: all its segments.
        start: where it starts.
    """

    parts: tuple[tuple[int, bytes], ...]
    segments: tuple[Segment, ...]
    start: StartPoint

    @property
    def size(self) -> int:
        """Bytes that are loaded."""
        return sum(len(data) for _, data in self.parts)

    @classmethod
    def parse(cls, elf: bytes, vector_table: int) -> LoadableImage:
        """Return what is in an ELF.

        Args:
            elf: the file's content.
            vector_table: the address where its vector table has to be.

        Raises:
            UsageError: it cannot be loaded, or has no vector table there.
        """
        file = io.BytesIO(elf)
        try:
            in_file = segments(file)
        except ElfError as error:
            raise UsageError(f"the image cannot be loaded: {error}", hint=_HINT) from error
        parts = sorted((part.load_address, part.read(file)) for part in in_file if part.file_size)
        return cls(tuple(parts), in_file, _start_point(file, in_file, vector_table))

    def room_behind_code(self, size: int) -> int:
        """Return an address with `size` bytes that the image does not use, right behind its code if it can be."""
        spans = [place for segment in self.segments for place in segment.places]
        code = next(segment for segment in self.segments if segment.executable)
        address = code.address + code.memory_size
        while True:
            address = (address + 7) // 8 * 8
            ends = [begin + length for begin, length in spans if begin < address + size and address < begin + length]
            if not ends:
                return address
            address = max(ends)


def _start_point(file: io.BytesIO, parts: tuple[Segment, ...], table: int) -> StartPoint:
    def refuse(what: str) -> UsageError:
        return UsageError(f"the image has no vector table at 0x{table:08x}: {what}", hint=_HINT)

    if table % _TABLE_ALIGNMENT:
        raise refuse(f"one starts at a multiple of {_TABLE_ALIGNMENT}")
    home = next((part for part in parts if part.address <= table and table + 8 <= part.address + part.file_size), None)
    if home is None:
        raise refuse("nothing is loaded there")
    words = home.read(file)[table - home.address :]
    stack, entry = (int.from_bytes(words[at : at + 4], "little") for at in (0, 4))
    if stack == 0 or stack % 8:
        raise refuse(f"the stack would start at 0x{stack:08x}, which is not a multiple of eight")
    at = entry & ~1
    if not entry & 1 or not any(
        part.executable and part.address <= at < part.address + part.file_size for part in parts
    ):
        raise refuse(f"it would start at 0x{entry:08x}, which is not Thumb code of the image")
    return StartPoint(table, stack, at)


_CODE = (("__boot_begin", "__boot_end"), ("__code_begin", "__code_end"))
"""Symbols of the linker script around the two parts of code and constants that the monitor's checksum is of."""
_MAILBOX = "monitor_mailbox"


@dataclass(frozen=True)
class ResidentFirmware:
    """The firmware of an image, and the image's package.

    Attributes:
        elf: the image.
        parts: what is loaded: addresses, and the bytes there.
        package: what the monitor takes; b"" where the image has none.
        mailbox: the address of what says that the firmware is to stay.
        code_crc32: what the monitor answers when this firmware is in memory.
    """

    elf: bytes
    parts: tuple[tuple[int, bytes], ...]
    package: bytes
    mailbox: int
    code_crc32: int

    @classmethod
    @functools.lru_cache(maxsize=4)
    def of(cls, elf: bytes) -> ResidentFirmware:
        """Return the firmware in an image.

        Raises:
            ToolError: it is not an image of this firmware, or of one without a monitor.
        """
        slot = PackageSlot.of(elf)
        file = io.BytesIO(elf)
        try:
            loaded = contents(file, segments(file))
            table = ELFFile(file).get_section_by_name(".symtab")
        except (ElfError, ELFError) as error:
            raise ToolError(
                f"the firmware is not an ELF that can be loaded: {error}", hint="run `make firmware`"
            ) from error
        wanted = {_MAILBOX, *(name for pair in _CODE for name in pair)}
        symbols: dict[str, int] = {}
        if isinstance(table, SymbolTableSection):
            symbols = {symbol.name: symbol["st_value"] for symbol in table.iter_symbols() if symbol.name in wanted}
        if symbols.keys() != wanted:
            raise ToolError(
                f"the firmware has no {', '.join(sorted(wanted - symbols.keys()))}: it cannot stay on a board",
                hint="build it again with `make firmware`",
            )
        package = next((data for address, data in loaded if address == slot.start), b"")
        # The mailbox is told apart: what is read back must be what was written last.
        apart = (slot.start, symbols[_MAILBOX])
        parts = tuple((address, data) for address, data in sorted(loaded) if address not in apart)
        crc = 0
        for begin, end in _CODE:
            crc = zlib.crc32(_bytes(parts, symbols[begin], symbols[end]), crc)
        return cls(elf, parts, package, symbols[_MAILBOX], crc)

    def parts_with(self, clocks: Clocks) -> tuple[tuple[int, bytes], ...]:
        """Return what is loaded so that it stays: its parts, and the mailbox with the clocks."""
        return *self.parts, (self.mailbox, mailbox(clocks))


def _bytes(parts: tuple[tuple[int, bytes], ...], begin: int, end: int) -> bytes:
    """Return what is between two addresses; gaps between parts are zero, as a linker leaves them."""
    content = bytearray(end - begin)
    for address, data in parts:
        first, last = max(begin, address), min(end, address + len(data))
        if first < last:
            content[first - begin : last - begin] = data[first - address : last - address]
    return bytes(content)
