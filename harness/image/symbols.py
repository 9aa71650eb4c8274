"""Code addresses as functions and source lines, from an ELF's symbols and DWARF line tables."""

from __future__ import annotations

import bisect
import functools
import io
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ethos_hil.base.deadline import Deadline

if TYPE_CHECKING:
    from elftools.dwarf.dwarfinfo import DWARFInfo
    from elftools.elf.elffile import ELFFile

_SECONDS = 3.0
"""For a name or a line. The ELF may be anybody's; in our firmware a look-up takes a tenth of a second."""
_MOST_SECTIONS = 10_000
_SECTION_HEADER = 40
"""Bytes of a section's header in a 32-bit ELF. With 0 a file has four billion sections."""
_MOST_LINE_BYTES = 8 << 20
"""Of the line tables, which are read in one piece."""
_MOST_DEBUG_BYTES = 64 << 20
"""Of any other section for debuggers: a compressed one may be a thousand times larger than the file."""


class Symbols:
    """Looks up addresses in one ELF. It reads the ELF at the first look-up."""

    def __init__(self, elf: bytes) -> None:
        self._elf = elf
        self._deadline = Deadline(_SECONDS)

    def describe(self, address: int) -> str:
        """Return "function at 0x10000400 (file.cc:12)", or the known part of it. Never raises; takes seconds."""
        try:
            function, line = self.function(address), self.line(address)
        except Exception:
            # On a damaged ELF the parsers raise errors of many types. Then only the name is lost, not the message that
            # it is for.
            function = line = None
        text = f"0x{address & ~1:08x}"
        if function is not None:
            text = f"{function} at {text}"
        return text if line is None else f"{text} ({line})"

    def function(self, address: int) -> str | None:
        """Return the name of the function that contains `address`, or None."""
        self._deadline = Deadline(_SECONDS)
        starts, functions = self._functions
        index = bisect.bisect_right(starts, address & ~1) - 1
        if index < 0:
            return None
        name, size = functions[index]
        # Symbols written in assembly often have no size; such a symbol extends to the next one.
        return name if (address & ~1) < starts[index] + size or not size else None

    def line(self, address: int) -> str | None:
        """Return "file.cc:12", the statement that contains `address`, or None."""
        self._deadline = Deadline(_SECONDS)
        dwarf = self._dwarf
        if dwarf is None:
            return None
        ranges = dwarf.get_aranges()  # a table of units by address: a tenth of the time, in an ELF that has it
        offset = ranges.cu_offset_at_addr(address & ~1) if ranges is not None else None
        if offset is not None:
            return _line_in(dwarf, dwarf.get_CU_at(offset), address & ~1)
        for unit in dwarf.iter_CUs():
            place = _line_in(dwarf, unit, address & ~1)
            if place is not None or self._deadline.passed:
                return place
        return None

    @functools.cached_property
    def file(self) -> ELFFile | None:
        """The ELF as the parser has it; None where it is not an ELF, or its table of sections is not ordinary."""
        from elftools.common.exceptions import ELFError  # late: it takes 30 ms, and most runs need no symbols
        from elftools.elf.elffile import ELFFile

        try:
            file = ELFFile(io.BytesIO(self._elf))
        except ELFError:
            return None
        ordinary = file["e_shentsize"] == _SECTION_HEADER and file.num_sections() <= _MOST_SECTIONS
        return file if ordinary else None

    @functools.cached_property
    def _dwarf(self) -> DWARFInfo | None:
        if self.file is None or not self.file.has_dwarf_info():
            return None
        for section in self.file.iter_sections():
            most = _MOST_LINE_BYTES if section.name == ".debug_line" else _MOST_DEBUG_BYTES
            # The old form of compression does not say the size where it can be checked.
            if section.name.startswith(".zdebug") or (section.name.startswith(".debug") and section.data_size > most):
                return None
        return self.file.get_dwarf_info()

    @functools.cached_property
    def _functions(self) -> tuple[list[int], list[tuple[str, int]]]:
        from elftools.elf.sections import SymbolTableSection

        table = self.file.get_section_by_name(".symtab") if self.file is not None else None
        functions: dict[int, tuple[str, int]] = {}
        if isinstance(table, SymbolTableSection):
            for number, symbol in enumerate(table.iter_symbols()):
                if number % 1000 == 0 and self._deadline.passed:
                    break
                if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
                    functions.setdefault(symbol["st_value"] & ~1, (_demangle(symbol.name), symbol["st_size"]))
        starts = sorted(functions)
        return starts, [functions[start] for start in starts]


def _line_in(dwarf: DWARFInfo, unit: object, address: int) -> str | None:
    program = dwarf.line_program_for_CU(unit)
    if program is None:
        return None
    previous = None
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if previous is not None and previous.address <= address < state.address:
            return _place(program, previous)
        previous = None if state.end_sequence else state
    return None


def _place(program: object, state: object) -> str:
    header = program.header  # type: ignore[attr-defined]
    # File numbers count from 1 up to DWARF 4, from 0 since DWARF 5.
    index = state.file - (0 if header["version"] >= 5 else 1)  # type: ignore[attr-defined]
    name = header["file_entry"][index].name
    return f"{PurePosixPath(name.decode() if isinstance(name, bytes) else name).name}:{state.line}"  # type: ignore[attr-defined]


def _demangle(name: str) -> str:
    """Return the qualified name in an Itanium-mangled symbol ("_ZN9ethos_hil3npu3runEv" -> "ethos_hil::npu::run").
    Other symbols, and names more complex than nested plain ones, are returned as they are."""
    if not name.startswith("_Z"):
        return name
    rest = name[2:].removeprefix("N").removeprefix("K")
    parts: list[str] = []
    while rest[:1].isdigit() or rest.startswith("L"):
        rest = rest.removeprefix("L")
        digits = len(rest) - len(rest.lstrip("0123456789"))
        length = int(rest[:digits])
        part, rest = rest[digits : digits + length], rest[digits + length :]
        if len(part) != length:
            return name
        parts.append("(anonymous)" if part.startswith("_GLOBAL__N") else part)
    if parts and rest[:2] in ("C1", "C2"):
        parts.append(parts[-1])  # a constructor
    return "::".join(parts) if parts and rest[:1] != "I" else name
