"""The facts of a system on chip as files for the firmware's build: C++, linker and CMake.

    python -m ethos_hil.harness.socs.firmware_files

writes those of all systems that our own firmware is built for into firmware/. A test keeps the files there equal to the
declarations. For a board of the user's own,

    python -m ethos_hil.harness.socs.firmware_files --board my-board.toml --into build/my-board

writes them into a folder, from which CMake builds its firmware (firmware/README.md).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.npu.family import AdapterSettings
from ethos_hil.harness.socs.registry import SOCS, find_soc, shipped_socs
from ethos_hil.harness.socs.soc import KIB, MIB, FirmwareBoard, Soc

PRESETS = "boards/presets.json"
NPUS = "npu/families.h"
ALL_BOARDS = "boards"
"""The preset that builds the firmware of all boards but the Corstones, which have one each."""
_FOLDER = Path(__file__).resolve().parents[2] / "firmware"
_COMMAND = "python -m ethos_hil.harness.socs.firmware_files"


def firmware_files(socs: Sequence[Soc] | None = None) -> dict[str, str]:
    """Return the text of each file by its path below firmware/.

    Args:
        socs: the systems; None for all that our own firmware is built for.

    Raises:
        KeyError: a system's firmware is to be in a memory that the system does not have.
        UsageError: a system's driver or port is not there.
    """
    chosen = shipped_socs() if socs is None else tuple(socs)
    files = {PRESETS: _presets(chosen), NPUS: npus_header()}
    for soc in chosen:
        files |= {f"boards/{soc.firmware.name}/{name}": text for name, text in files_of(soc, _source(soc)).items()}
    return files


def files_of(soc: Soc, source: str) -> dict[str, str]:
    """Return the text of each file of one system, by its name in the folder of the board.

    Args:
        soc: the system.
        source: the file that declares it.

    Raises:
        KeyError: its firmware is to be in a memory that it does not have.
        UsageError: its driver or its port is not there.
    """
    _check_parts(soc)
    origin = f"Generated from {source} (harness/socs/firmware_files.py). Do not edit."
    return {"soc.h": _header(soc, origin), "memory.ld": _memory(soc, origin), "board.cmake": _board(soc, origin)}


def _check_parts(soc: Soc) -> None:
    board = soc.firmware
    for what, name, pattern in (
        ("UART driver", soc.uart, "boards/uarts/{}.cc"),
        ("port", board.port, "boards/{}/port.cc"),
        ("NPU driver", board.driver, "npu/{}.cc"),
    ):
        if not (_FOLDER / pattern.format(name)).is_file():
            head, _, tail = pattern.partition("{}")
            known = sorted(
                str(path.relative_to(_FOLDER))[len(head) : -len(tail)] for path in _FOLDER.glob(pattern.format("*"))
            )
            raise UsageError(
                f"{soc.name}: the firmware has no {what} {name!r}: there is no firmware/{pattern.format(name)}",
                hint=f"use one of {', '.join(known)}, or write it",
            )


def _source(soc: Soc) -> str:
    return f"harness/socs/{soc.name.replace('-', '_')}.py" if soc in SOCS else f"harness/boards/data/{soc.name}.toml"


def _header(soc: Soc, origin: str) -> str:
    adapters = ", ".join(f"0x{address:08x}" for address in soc.timing_adapter_ports or (0, 0))
    uarts = ", ".join(f"0x{uart.base:08x}" for uart in soc.uarts)
    return f"""// {origin}
// {soc.summary}. Addresses are those of secure code.
#pragma once

#include <cstdint>

namespace ethos_hil::soc {{

constexpr std::uint16_t NUMBER = {soc.number};
constexpr std::uintptr_t UARTS[] = {{{uarts}}};  // where UART 0 may be
constexpr std::uintptr_t NPU_BASE = 0x{soc.npu_registers.base:08x};
constexpr std::uint32_t NPU_IRQ = {soc.npu_irq};
constexpr std::uint32_t INTERRUPTS = {soc.interrupts};
constexpr std::uintptr_t TIMING_ADAPTERS[] = {{{adapters}}};
constexpr std::uint32_t CPU_HZ = {_group(soc.cpu_hz)};
constexpr std::uint32_t PERIPHERAL_HZ = {_group(soc.peripheral_hz)};
{_constants(soc)}
}}  // namespace ethos_hil::soc
"""


def _constants(soc: Soc) -> str:
    """Return the numbers that only the driver of its UART and the code of its port know."""
    constants = [*((f"UART_{name}", value) for name, value in soc.uart_options), *soc.options]
    lines = [f"constexpr std::uint32_t {name} = {_definition(name, value)};\n" for name, value in constants]
    return "".join(["\n", *lines]) if lines else ""


def _definition(name: str, value: int) -> str:
    """Clocks and small numbers are decimal, addresses and bits are not."""
    return _group(value) if name.endswith("_HZ") or value < 0x1000 else f"0x{value:08x}"


def _group(number: int) -> str:
    return f"{number:,}".replace(",", "'")


def npus_header() -> str:
    """Return what the firmware has to know of the families of NPUs."""
    products, rows, memories = "", "", ""
    for family in FAMILIES:
        name, more = family.name.upper(), family.dedicated_adapters or family.adapters
        products += f"constexpr std::uint32_t PRODUCT_{name} = {family.product};\n"
        flags = ", ".join(str(flag).lower() for flag in (family.has_shram, family.arena_anywhere))
        rows += f'    {{"ethos-{family}", {flags}, 0x{family.pmu_base:04x}, {family.event_counters}}},\n'
        memories += f"constexpr TimingAdapters {name}_MEMORIES{{{{{_settings(family.adapters)}}},\n"
        memories += f"{' ' * 38}{{{_settings(more)}}}}};\n"
    return f"""// Generated from src/ethos_hil/base/npu (harness/socs/firmware_files.py). Do not edit.
#pragma once

#include <cstdint>

#include "npu/timing_adapter.h"

namespace ethos_hil::npu {{

{products}
struct Family {{
  const char* name;
  bool has_shram;
  bool dedicated;          // whether programs can be for the memory mode Dedicated_Sram
  std::uint32_t pmu_base;  // offset
  std::uint32_t counters;  // of events
}};

// By product.
constexpr Family FAMILIES[] = {{
{rows}}};

{memories}
}}  // namespace ethos_hil::npu
"""


def _settings(adapters: tuple[AdapterSettings, ...]) -> str:
    return ", ".join(f"{{{', '.join(map(str, adapter))}}}" for adapter in adapters)


_SEGMENTS = {
    "boot": ("boot", 5),
    "code": ("code", 5),
    "data": ("data", 6),
    "mailbox": ("data", 6),
    "zero": ("data", 6),
    "stack": ("stack", 6),
}
"""The firmware's loadable segments: whose memory each is in, and its flags (5: read, execute; 6: read, write)."""


def _memory(soc: Soc, origin: str) -> str:
    """Return the memories of the firmware, which part of it goes into each, and its segments.

    An ELF has its segments in the order of their addresses (System V ABI, chapter 5), which differs between boards.
    """
    board = soc.firmware
    lines = [f"/* {origin} */", "MEMORY", "{"]
    for name in dict.fromkeys((board.boot, board.code, board.data, board.stack, board.pool)):
        memory = soc.memory(name)
        lines.append(_region(name, memory.base, memory.size, _access(board, name)))
    lines += [_region("PACKAGE", board.package.base, board.package.size, "rw"), "}"]
    for part in ("boot", "code", "data", "stack", "pool"):
        lines.append(f'REGION_ALIAS("{part.upper()}", {_word(getattr(board, part))})')
    ordered = sorted(_SEGMENTS, key=lambda name: soc.memory(getattr(board, _SEGMENTS[name][0])).base)
    lines += ["PHDRS", "{", *(f"  {name} PT_LOAD FLAGS({_SEGMENTS[name][1]});" for name in ordered)]
    lines += ["  note PT_NOTE FLAGS(4);", "}"]
    return "\n".join([*lines, ""])


def _region(name: str, base: int, size: int, access: str) -> str:
    length = f"{size // MIB}M" if size % MIB == 0 else f"{size // KIB}K"
    return f"  {_word(name)} ({access}) : ORIGIN = 0x{base:08x}, LENGTH = {length}"


def _word(name: str) -> str:
    return name.replace(" ", "_")


def _access(board: FirmwareBoard, name: str) -> str:
    writable = "w" if name in (board.data, board.stack, board.pool) else ""
    executable = "x" if name in (board.boot, board.code) else ""
    return f"r{writable}{executable}"


def _board(soc: Soc, origin: str) -> str:
    board = soc.firmware
    without = "".join(f"\n  {name}" for name in board.without)
    return f"""# {origin}
set(board_name {board.name})
set(board_cpu {board.cpu})
set(board_left_out{without})
set(board_sources boards/uarts/{soc.uart}.cc npu/{board.driver}.cc)
include(boards/armv8m/board.cmake)
include(boards/{board.port}/board.cmake)
"""


def _presets(socs: Sequence[Soc]) -> str:
    configure = [_preset(soc) for soc in socs]
    others = [soc.firmware.name for soc in socs if soc not in SOCS]
    if others:
        all_of_them = {
            "name": ALL_BOARDS,
            "displayName": "All boards but the Corstones, in one build",
            "generator": "Ninja",
            "binaryDir": f"${{sourceDir}}/../build/firmware/{ALL_BOARDS}",
            "toolchainFile": "${sourceDir}/cmake/arm-none-eabi.cmake",
            "cacheVariables": {
                "ETHOS_HIL_BOARD": ";".join(others),
                "ETHOS_HIL_OUTPUT": "${sourceDir}/../build/firmware",
            },
        }
        configure.append(all_of_them)
    build = [{"name": preset["name"], "configurePreset": preset["name"]} for preset in configure]
    document = {
        "version": 4,
        "vendor": {"ethos-hil": f"Generated from harness/socs and harness/boards/data by `{_COMMAND}`. Do not edit."},
        "configurePresets": configure,
        "buildPresets": build,
    }
    return json.dumps(document, indent=2) + "\n"


def _preset(soc: Soc) -> dict[str, Any]:
    board = soc.firmware.name
    npus = " or ".join(npu.family.title for npu in soc.npus)
    return {
        "name": board,
        "displayName": f"{soc.summary}, {npus}",
        "generator": "Ninja",
        "binaryDir": f"${{sourceDir}}/../build/firmware/{board}",
        "toolchainFile": "${sourceDir}/cmake/arm-none-eabi.cmake",
        "cacheVariables": {"ETHOS_HIL_BOARD": board},
    }


def write(files: dict[str, str], folder: Path) -> None:
    """Write files into a folder, and print their names.

    Raises:
        UsageError: one cannot be written.
    """
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
        sys.stdout.write(f"{path}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files of all boards into firmware/, or those of one into a folder; return the exit status."""
    parser = argparse.ArgumentParser(description="Write what the firmware's build has to know of boards.")
    parser.add_argument("--board", metavar="NAME_OR_FILE", help="the files of this board alone")
    parser.add_argument("--into", metavar="DIR", type=Path, help="where they go; one folder for one board")
    options = parser.parse_args(arguments)
    if (options.board is None) != (options.into is None):
        parser.error("--board and --into go together")
    try:
        if options.board is None:
            write(firmware_files(), _FOLDER)
        else:
            write(files_of(find_soc(options.board), Path(options.board).name), options.into)
    except EthosHilError as error:
        sys.stderr.write(f"error: {error.message}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
