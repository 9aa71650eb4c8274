"""The firmware as a debug probe loads it: without a package, and told to stay and take packages from the line."""

from __future__ import annotations

import functools
import io
import zlib
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.boards.monitor_frames import mailbox
from ethos_hil.harness.image.pack import Clocks, PackageSlot
from ethos_hil.harness.image.segments import ElfError, contents, segments

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
    def of(cls, elf: bytes) -> ResidentFirmware:
        """Return the firmware in an image.

        Raises:
            ToolError: it is no image of this firmware, or of one without a monitor.
        """
        return _read(elf)

    def told(self, clocks: Clocks) -> tuple[int, bytes]:
        """Return what is loaded besides: an address, and the bytes there."""
        return self.mailbox, mailbox(clocks)


@functools.lru_cache(maxsize=4)
def _read(elf: bytes) -> ResidentFirmware:
    slot = PackageSlot.of(elf)
    file = io.BytesIO(elf)
    try:
        loaded = contents(file, segments(file))
        table = ELFFile(file).get_section_by_name(".symtab")
    except (ElfError, ELFError) as error:
        raise ToolError(f"the firmware is no ELF that can be loaded: {error}", hint="run `make firmware`") from error
    wanted = {_MAILBOX, *(name for pair in _CODE for name in pair)}
    symbols: dict[str, int] = {}
    if isinstance(table, SymbolTableSection):
        symbols = {each.name: each["st_value"] for each in table.iter_symbols() if each.name in wanted}
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
    return ResidentFirmware(elf, parts, package, symbols[_MAILBOX], crc)


def _bytes(parts: tuple[tuple[int, bytes], ...], begin: int, end: int) -> bytes:
    """Return what is between two addresses; gaps between parts are zero, as a linker leaves them."""
    found = bytearray(end - begin)
    for address, data in parts:
        first, last = max(begin, address), min(end, address + len(data))
        if first < last:
            found[first - begin : last - begin] = data[first - address : last - address]
    return bytes(found)
