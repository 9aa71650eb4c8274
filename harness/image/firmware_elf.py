"""The firmware's ELF: where it is, and what it says of itself to whoever reads the file.

Symbols of the linker script name the pools and the stack; the section `.ethos_hil.operators` lists the operators it has
kernels for, one `name.overload` a line. An ELF without one of them leaves that fact unknown.
"""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.lowering.errors import ToolError

FIRMWARE_VARIABLE = "ETHOS_HIL_FIRMWARE"
OPERATORS_SECTION = ".ethos_hil.operators"
_BUILD = Path(__file__).resolve().parents[2] / "build/firmware"
_SYMBOLS = (
    "__sram_pool_start", "__sram_pool_end", "__ddr_end", "__stack_limit", "__stack_top", "__package_start",
    "__package_limit",
)  # fmt: skip


def find_firmware(soc: str = "corstone-300") -> bytes:
    """The firmware's ELF for a system on chip, from $ETHOS_HIL_FIRMWARE (a file, or a folder with one for each board)
    or where `make firmware` puts it.

    Raises:
        ToolError: there is none.
    """
    path = Path(os.environ.get(FIRMWARE_VARIABLE) or _BUILD)
    if path.is_dir() or path == _BUILD:
        path = path / find_soc(soc).firmware.name / "ethos-hil.elf"
    try:
        status = path.stat()
        return _content(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise ToolError(
            f"no firmware at {path}: {error.strerror}", hint=f"run `make firmware`, or set {FIRMWARE_VARIABLE}"
        ) from error


@functools.lru_cache(maxsize=4)
def _content(path: Path, _modified: int, _size: int) -> bytes:
    """Of megabytes that a suite asks for hundreds of times; and what is known of an object is found faster."""
    return path.read_bytes()


@dataclass(frozen=True)
class Firmware:
    """What can be told of a firmware without running it; None where its ELF does not say.

    Attributes:
        start: lowest address that it loads, where the processor finds its vector table.
        sram: bytes of the SRAM pool.
        ddr: bytes of DDR from the start of the package to the end.
        package: bytes the package may have.
        package_start: address of the package.
        stack: bytes of the main stack.
        operators: full names of the operators it has kernels for.
    """

    start: int | None
    sram: int | None
    ddr: int | None
    package: int | None
    stack: int | None
    operators: frozenset[str] | None
    package_start: int | None = None

    @classmethod
    def read(cls, elf: bytes) -> Firmware:
        """Of the ELF.

        Raises:
            ToolError: it is no ELF file.
        """
        return _read(elf)


@functools.lru_cache(maxsize=4)
def _read(elf: bytes) -> Firmware:
    try:
        file = ELFFile(io.BytesIO(elf))
        table = file.get_section_by_name(".symtab")
        loaded = [s["p_paddr"] for s in file.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_filesz"]]
        section = file.get_section_by_name(OPERATORS_SECTION)
        names = None if section is None else section.data().decode("utf-8", "replace").replace("\0", "\n").split()
    except ELFError as error:
        raise ToolError(f"the firmware is not an ELF file: {error}", hint="build it with `make firmware`") from error
    symbols: dict[str, int] = {}
    if isinstance(table, SymbolTableSection):
        for name in _SYMBOLS:
            for symbol in table.get_symbol_by_name(name) or ():
                symbols[name] = int(symbol["st_value"])
    return Firmware(
        start=min(loaded, default=None),
        sram=_between(symbols, "__sram_pool_start", "__sram_pool_end"),
        ddr=_between(symbols, "__package_start", "__ddr_end"),
        package=_between(symbols, "__package_start", "__package_limit"),
        stack=_between(symbols, "__stack_limit", "__stack_top"),
        operators=None if names is None else frozenset(names),
        package_start=symbols.get("__package_start"),
    )


def _between(symbols: Mapping[str, int], first: str, last: str) -> int | None:
    return symbols[last] - symbols[first] if first in symbols and last in symbols else None
