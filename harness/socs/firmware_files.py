"""The facts of a system on chip as files for the firmware's build: C++, linker and CMake.

    python -m ethos_hil.harness.socs.firmware_files

writes them into firmware/. A test keeps the files there equal to the declarations.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.socs.soc import KIB, MIB, FirmwareBoard, Soc

PRESETS = "boards/presets.json"
_FOLDER = Path(__file__).resolve().parents[2] / "firmware"
_COMMAND = "python -m ethos_hil.harness.socs.firmware_files"


def firmware_files(socs: Sequence[Soc] = SOCS) -> dict[str, str]:
    """Return the text of each file by its path below firmware/.

    Raises:
        KeyError: a system's firmware is to be in a memory that the system does not have.
    """
    files = {PRESETS: _presets(socs)}
    for soc in socs:
        folder = f"boards/{soc.firmware.name}"
        files |= {
            f"{folder}/soc.h": _header(soc),
            f"{folder}/memory.ld": _memory(soc),
            f"{folder}/board.cmake": _board(soc),
        }
    return files


def _origin(soc: Soc) -> str:
    return f"Generated from harness/socs/{soc.name.replace('-', '_')}.py by `{_COMMAND}`. Do not edit."


def _header(soc: Soc) -> str:
    adapters = ", ".join(f"0x{address:08x}" for address in soc.timing_adapter_ports or (0, 0))
    uarts = ", ".join(f"0x{uart.base:08x}" for uart in soc.uarts)
    return f"""// {_origin(soc)}
// {soc.summary}. Addresses are those of secure code.
#pragma once

#include <cstdint>

namespace ethos_hil::soc {{

constexpr std::uint16_t NUMBER = {soc.number};
constexpr std::uintptr_t UARTS[] = {{{uarts}}};  // where UART 0 may be
constexpr std::uintptr_t NPU_BASE = 0x{soc.npu_registers.base:08x};
constexpr std::uint32_t NPU_IRQ = {soc.npu_irq};
constexpr std::uintptr_t TIMING_ADAPTERS[] = {{{adapters}}};
constexpr std::uint32_t CPU_HZ = {_grouped(soc.cpu_hz)};
constexpr std::uint32_t PERIPHERAL_HZ = {_grouped(soc.peripheral_hz)};

}}  // namespace ethos_hil::soc
"""


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", "'")


_SEGMENTS = {"boot": ("boot", 5), "code": ("code", 5), "data": ("data", 6), "zero": ("data", 6), "stack": ("stack", 6)}
"""The firmware's loadable segments: whose memory each is in, and its flags (5: read, execute; 6: read, write)."""


def _memory(soc: Soc) -> str:
    """Return the memories of the firmware, which part of it goes into each, and its segments.

    An ELF has its segments in the order of their addresses (System V ABI, chapter 5), which differs between boards.
    """
    board = soc.firmware
    lines = [f"/* {_origin(soc)} */", "MEMORY", "{"]
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


def _board(soc: Soc) -> str:
    board = soc.firmware
    return f"""# {_origin(soc)}
include(boards/{board.port}/board.cmake)
list(APPEND board_sources npu/{board.driver}.cc)
"""


def _presets(socs: Sequence[Soc]) -> str:
    configure: list[dict[str, Any]] = []
    for soc in socs:
        board = soc.firmware.name
        npus = " or ".join(npu.family.replace("ethos-u", "Ethos-U") for npu in soc.npus)
        configure.append(
            {
                "name": board,
                "displayName": f"{soc.summary}, {npus}",
                "generator": "Ninja",
                "binaryDir": f"${{sourceDir}}/../build/firmware/{board}",
                "toolchainFile": "${sourceDir}/cmake/arm-none-eabi.cmake",
                "cacheVariables": {"ETHOS_HIL_BOARD": board, **_without(soc.firmware)},
            }
        )
    build = [{"name": preset["name"], "configurePreset": preset["name"]} for preset in configure]
    document = {
        "version": 4,
        "vendor": {"ethos-hil": f"Generated from harness/socs by `{_COMMAND}`. Do not edit."},
        "configurePresets": configure,
        "buildPresets": build,
    }
    return json.dumps(document, indent=2) + "\n"


def _without(board: FirmwareBoard) -> dict[str, str]:
    return {"ETHOS_HIL_LEFT_OUT": ",".join(board.without)} if board.without else {}


def main() -> None:
    """Write the files into firmware/ and print their names."""
    for name, text in firmware_files().items():
        path = _FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
