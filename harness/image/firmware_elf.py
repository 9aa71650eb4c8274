"""The firmware's ELF: where it is, and the properties that the file states.

Symbols of the linker script name the pools and the stack; the section `.ethos_hil.operators` lists the operators it has
kernels for, one `name.overload` a line. An ELF without one of them leaves that fact unknown.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError
from ethos_hil.base.files import read_bytes
from ethos_hil.harness.image.firmware_manifest import firmware_doubt, firmware_path, remedy
from ethos_hil.harness.image.segments import ElfError, segments

OPERATORS_SECTION = ".ethos_hil.operators"

_SYMBOLS = (
    "__sram_pool_start", "__sram_pool_end", "__ddr_end", "__stack_limit", "__stack_top", "__package_start",
    "__package_limit",
)  # fmt: skip

MOST_ELF = 1 << 30
"""Bytes of the largest ELF that is read: all memory of a board, and its symbols."""


def find_firmware(soc: str = "corstone-300") -> bytes:
    """Return the firmware's ELF for a system on chip, from `firmware_path`.

    Raises:
        ToolError: there is no firmware.
    """
    path = firmware_path(soc)
    try:
        status = path.stat()
        return _content(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise ToolError(f"no firmware at {path}: {error.strerror}", hint=remedy()) from error


@functools.lru_cache(maxsize=4)
def _content(path: Path, _modified: int, _size: int) -> bytes:
    """Read the file. Cached: the ELF has megabytes and a suite reads it often."""
    return read_bytes(path, most=MOST_ELF)


@dataclass(frozen=True)
class Firmware:
    """The firmware's properties, read from its ELF. A property is None where the ELF does not state it.

    Attributes:
        start: lowest address that it loads; the processor reads its vector table there.
        sram: bytes of the SRAM pool.
        ddr: bytes of DDR from the start of the package to the end.
        package: largest size of the package, bytes.
        package_start: address of the package.
        stack: bytes of the main stack.
        operators: full names of the operators that it has kernels for.
        doubt: a warning if the firmware was built here from other sources than today's (`firmware_doubt`), or None.
    """

    start: int | None
    sram: int | None
    ddr: int | None
    package: int | None
    stack: int | None
    operators: frozenset[str] | None
    package_start: int | None = None
    doubt: str | None = None

    @classmethod
    def read(cls, elf: bytes) -> Firmware:
        """Read the properties from an ELF.

        Raises:
            ToolError: it is not an ELF file that a Cortex-M can run.
        """
        return _read(elf)


@functools.lru_cache(maxsize=4)
def _read(elf: bytes) -> Firmware:
    """Read an ELF (TIS ELF 1.2, book I). pyelftools takes 70 ms for the firmware's 2,500 symbols."""
    try:
        loaded = [part.load_address for part in segments(BytesIO(elf)) if part.file_size]
        sections, symbols = _tables(elf)
    except (ElfError, ValueError, struct.error, IndexError) as error:
        raise ToolError(f"the firmware cannot be read: {error}", hint="build it with `make firmware`") from error
    names = sections.get(OPERATORS_SECTION)
    return Firmware(
        start=min(loaded, default=None),
        sram=_between(symbols, "__sram_pool_start", "__sram_pool_end"),
        ddr=_between(symbols, "__package_start", "__ddr_end"),
        package=_between(symbols, "__package_start", "__package_limit"),
        stack=_between(symbols, "__stack_limit", "__stack_top"),
        operators=None if names is None else frozenset(names.decode("utf-8", "replace").replace("\0", "\n").split()),
        package_start=symbols.get("__package_start"),
        doubt=firmware_doubt(elf),
    )


_EHDR_SECTIONS, _SHDR = struct.Struct("<32xI12xHH"), struct.Struct("<10I")
_SYMBOL_TABLE, _NOTHING_IN_FILE = 2, 8


def _tables(elf: bytes) -> tuple[dict[str, bytes], dict[str, int]]:
    """Return the sections by name, and the values of `_SYMBOLS`."""
    table, sections, names = _EHDR_SECTIONS.unpack_from(elf)
    rows = list(_SHDR.iter_unpack(elf[table : table + sections * _SHDR.size]))
    content = [b"" if row[1] == _NOTHING_IN_FILE else elf[row[4] : row[4] + row[5]] for row in rows]
    symbols = {}
    for row, data in zip(rows, content, strict=True):
        if row[1] == _SYMBOL_TABLE:
            symbols = _symbols(data, content[row[6]])
    return {_name(content[names], row[0]): data for row, data in zip(rows, content, strict=True)}, symbols


def _symbols(data: bytes, strings: bytes) -> dict[str, int]:
    wanted = {name.encode(): name for name in _SYMBOLS}
    symbols = {}
    for at, value, _, _, _, _ in struct.iter_unpack("<IIIBBH", data[: len(data) // 16 * 16]):
        name = wanted.get(strings[at : strings.find(b"\0", at)])
        if name is not None:
            symbols[name] = value
    return symbols


def _name(strings: bytes, at: int) -> str:
    return strings[at : strings.find(b"\0", at)].decode("utf-8", "replace")


def _between(symbols: Mapping[str, int], first: str, last: str) -> int | None:
    return symbols[last] - symbols[first] if first in symbols and last in symbols else None
