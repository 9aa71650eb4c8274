"""An ELF as a part would get it: its bytes in memory, and names for its addresses."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ethos_hil.harness.image.segments import Segment, contents, segments
from ethos_hil.harness.image.symbols import Symbols
from ethos_hil.harness.socs.soc import Soc

_MOST_SYMBOLS = 500_000


@dataclass(frozen=True)
class Named:
    """A symbol of the ELF."""

    name: str
    address: int
    size: int


class ElfProgram:
    """An ELF for a system on chip.

    Attributes:
        soc: the system.
        segments: what is loaded, in the order of the file.
    """

    def __init__(self, elf: bytes, soc: Soc) -> None:
        """Read an ELF.

        Raises:
            ElfError: a Cortex-M cannot run it.
        """
        self.soc = soc
        file = io.BytesIO(elf)
        self.segments: Sequence[Segment] = segments(file)
        self._loaded = contents(file, self.segments)
        self._sections, self._named = _names(Symbols(elf).file)

    def word(self, address: int) -> int | None:
        """Return the word that is loaded to `address` or to its alias, or None where nothing is."""
        for at in self.aliases(address):
            for begin, data in self._loaded:
                if begin <= at and at + 4 <= begin + len(data):
                    return int.from_bytes(data[at - begin : at - begin + 4], "little")
        return None

    def aliases(self, address: int) -> tuple[int, ...]:
        """Return all addresses of the byte at `address`."""
        memory = self.soc.memory_at(address)
        offset = None if memory is None else memory.offset_of(address)
        return (address,) if memory is None or offset is None else tuple(base + offset for base in memory.bases)

    def is_code(self, address: int) -> bool:
        """Return whether `address`, or an alias of it, is in a segment that may be executed."""
        return any(
            segment.executable and segment.address <= at < segment.address + segment.memory_size
            for at in self.aliases(address)
            for segment in self.segments
        )

    def size_at(self, address: int) -> int:
        """Return the largest size that a symbol states for what starts at `address` or its alias, or 0."""
        places = self.aliases(address)
        return max((function.size for function in self._named if function.address in places), default=0)

    def section(self, address: int) -> str | None:
        """Return the name of the section that has `address`, or None."""
        return next((name for name, begin, size in self._sections if begin <= address < begin + size), None)


def _names(file: ELFFile | None) -> tuple[list[tuple[str, int, int]], list[Named]]:
    """Return the sections that are in memory (name, address, size), and the symbols in the order of their addresses."""
    sections: list[tuple[str, int, int]] = []
    named: list[Named] = []
    if file is None:
        return sections, named
    try:
        for section in file.iter_sections():
            if section["sh_flags"] & 2:  # SHF_ALLOC
                sections.append((section.name, section["sh_addr"], section["sh_size"]))
        table = file.get_section_by_name(".symtab")
        if isinstance(table, SymbolTableSection) and table.num_symbols() <= _MOST_SYMBOLS:
            for symbol in table.iter_symbols():
                kind = symbol["st_info"]["type"]
                if kind in ("STT_FUNC", "STT_OBJECT") and symbol["st_shndx"] != "SHN_UNDEF":
                    address = symbol["st_value"] & (~1 if kind == "STT_FUNC" else ~0)
                    named.append(Named(symbol.name, address, symbol["st_size"]))
    except (ELFError, ValueError, KeyError, IndexError, OverflowError, AttributeError):  # only the names are lost
        pass
    return sections, sorted(named, key=lambda symbol: (symbol.address, symbol.name))
