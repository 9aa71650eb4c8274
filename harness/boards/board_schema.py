"""The JSON schema of a board's file.

    python -m ethos_hil.harness.boards.board_schema

writes it to docs/board.schema.json, for editors; a test keeps that file equal to it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.harness.boards.board import QUIRKS, Server, ServerDialect

JsonSchema = dict[str, Any]
DOCUMENT = "docs/board.schema.json"
FIRST_NUMBER = 1000
"""The least number of a system that a file declares; harness/socs has those below."""

_ADDRESS: JsonSchema = {"type": "integer", "minimum": 0, "maximum": 0xFFFFFFFF}
_SIZE: JsonSchema = {"type": "integer", "minimum": 1, "maximum": 1 << 32}
_HZ: JsonSchema = {"type": "integer", "minimum": 1, "maximum": 0xFFFFFFFF}
_TEXT: JsonSchema = {"type": "string", "minLength": 1}
_YES: JsonSchema = {"type": "boolean"}
_SECONDS: JsonSchema = {"type": "number", "exclusiveMinimum": 0, "maximum": 3600}
_WORDS: JsonSchema = {"type": "array", "items": _TEXT}


def _says(what: str, schema: JsonSchema) -> JsonSchema:
    return {**schema, "description": what}


def _table(properties: JsonSchema, needed: tuple[str, ...], *, whole: bool) -> JsonSchema:
    schema: JsonSchema = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": list(needed)} if whole and needed else schema


def _table_of(values: JsonSchema, names: str | None = None) -> JsonSchema:
    schema: JsonSchema = {"type": "object", "additionalProperties": values}
    return schema if names is None else {**schema, "propertyNames": {"pattern": names}}


def _window(whole: bool, more: JsonSchema | None = None, needed: tuple[str, ...] = ()) -> JsonSchema:
    properties = {
        "base": _says("First address, for secure code.", _ADDRESS),
        "size": _says("Bytes.", _SIZE),
        "alias": _says("First address for non-secure code, where that is another.", _ADDRESS),
        **(more or {}),
    }
    return _table(properties, ("base", "size", *needed), whole=whole)


def _soc(whole: bool) -> JsonSchema:
    constants = _table_of({"type": "integer", "minimum": 0, "maximum": 0xFFFFFFFF}, "^[A-Z][A-Z0-9_]*$")
    memory = {
        "npu": _says("Whether the NPU reaches it. Default: no.", _YES),
        "read_only": _says("Whether only a debugger or loader writes it. Default: no.", _YES),
        "tcm": _says("Whether it is within the processor. Default: no.", _YES),
    }
    irq = _says("Number of its interrupt.", {"type": "integer", "minimum": 0, "maximum": 479})
    uart = {
        "driver": _says("A file of firmware/boards/uarts, without its ending.", {"enum": list(UART_DRIVERS)}),
        "options": _says("Numbers that the driver needs; UART_NAME in soc.h.", constants),
    }
    properties = {
        "number": _says(
            "What the firmware reports in its HELLO frame; of this file alone.",
            {"type": "integer", "minimum": FIRST_NUMBER, "maximum": 0xFFFF},
        ),
        "summary": _says("Part, board and processor.", _TEXT),
        "cpu_hz": _says("The processor's clock, as the firmware leaves it.", _HZ),
        "peripheral_hz": _says("The UART's clock, before its own divider.", _HZ),
        "interrupts": _says(
            "Length of the vector table behind the core's 16 exceptions. Default: 128.",
            {"type": "integer", "minimum": 1, "maximum": 480},
        ),
        "secure_bit": _says(
            "The bit that is set in addresses of secure code; 0 where none tells them apart. Default: 0x10000000.",
            _ADDRESS,
        ),
        "options": _says("Numbers that the code of its port needs, by their names in soc.h.", constants),
        "memories": _says("All memories, by name.", _table_of(_window(whole, memory), "^[A-Za-z][A-Za-z0-9 ]*$")),
        "npu": _says("The NPU's registers and interrupt.", _window(whole, {"irq": irq}, ("irq",))),
        "uart": _says("The UART that the firmware writes to.", _window(whole, uart, ("driver",))),
        "firmware": _firmware(whole),
    }
    needed = ("number", "summary", "cpu_hz", "peripheral_hz", "memories", "npu", "uart", "firmware")
    return {**_table(properties, needed, whole=whole), "type": ["string", "object"]}


def _firmware(whole: bool) -> JsonSchema:
    window = {"base": _says("First address.", _ADDRESS), "size": _says("Bytes.", _SIZE)}
    package = _table(window, ("base", "size"), whole=whole)
    drivers = sorted({family.driver for family in FAMILIES})
    properties = {
        "port": _says("The folder of firmware/boards with the code for this kind of board.", _TEXT),
        "driver": _says("The file of firmware/npu for this family of NPU.", {"enum": drivers}),
        "cpu": _says("GCC's -mcpu.", {"enum": ["cortex-m55", "cortex-m85"]}),
        **{part: _says(f"The memory for {what}.", _TEXT) for part, what in PLACES.items()},
        "package": _says("Where the host puts programs.", package),
        "without": _says("Kernels that are left out.", _WORDS),
    }
    return _table(properties, ("port", "driver", *PLACES, "package"), whole=whole)


PLACES = {
    "boot": "the vector table, and code and initial data that fit",
    "code": "the rest of the code, and constants",
    "data": "variables, and the stack of the fault handler",
    "stack": "the main stack",
    "pool": "what the NPU works in; what is not linked into it is for programs",
}
"""The parts of the firmware that each go into a memory."""
UART_DRIVERS = ("cmsdk", "pl011", "ns16550", "numicro", "sci")


def board_schema(*, whole: bool) -> JsonSchema:
    """Return the schema.

    Args:
        whole: of a file that extends no other, or of one together with what it extends: what is needed must be there.
    """
    write = _table({"address": _ADDRESS, "value": _ADDRESS, "why": _TEXT}, ("address", "value"), whole=True)
    loading = {
        "server": _says("What speaks GDB's remote protocol for the probe.", {"enum": [kind.value for kind in Server]}),
        "dialect": _says(
            "Whose monitor commands a running server knows.", {"enum": [kind.value for kind in ServerDialect]}
        ),
        "address": _says("host:port of a running server.", _TEXT),
        "command": _says("Starts the server; {port}, {serial} and {device} are filled in.", _WORDS),
        "device": _says("What the server calls the part.", {"type": "string"}),
        "serial": _says("Serial number of the probe.", {"type": "string"}),
        "core": _says("Number of the processor, added to the port.", {"type": "integer", "minimum": 0, "maximum": 15}),
        "port": _says("TCP port; 0 is a free one.", {"type": "integer", "minimum": 0, "maximum": 65535}),
        "timeout": _says("Seconds until the server answers.", _SECONDS),
    }
    baud: JsonSchema = {"type": "integer", "minimum": 1200, "maximum": 20_000_000}
    link = {
        "url": _says("A device, or what pyserial's serial_for_url takes.", _TEXT),
        "baud": _says("Bits per second at the start.", baud),
        "fastest_baud": _says("What both ends may change to.", baud),
    }
    reset = {
        "commands": _says("Monitor commands instead of the server's usual ones; [] is: only halt.", _WORDS),
        "before": _says("Words written to the halted board before these.", {"type": "array", "items": write}),
        "after": _says("Words written when it is halted again.", {"type": "array", "items": write}),
    }
    power = {
        **{name: _says("A command of this machine.", {**_WORDS, "minItems": 1}) for name in ("on", "off", "cycle")},
        "settle": _says("Seconds that the board needs afterwards.", _SECONDS),
    }
    properties = {
        "extends": _says("Another board, or a file, whose keys this one overrides.", _TEXT),
        "description": _says("Maker, processor and NPU.", _TEXT),
        "simulated": _says("Whether it is a program, so that its cycles are modelled. Default: no.", _YES),
        "npu_hz": _says("The NPU's clock, as the firmware leaves it. Default: not known, and no times are made.", _HZ),
        "npus": _says("The NPUs it can have.", {"type": "array", "minItems": 1, "uniqueItems": True, "items": _TEXT}),
        "notes": _says("What its user has to do or know first.", _WORDS),
        "soc": _says("The name of a declared system on chip, or one's own.", _soc(whole)),
        "loading": _table(loading, ("server",), whole=whole),
        "link": _table(link, ("baud",), whole=whole),
        "reset": _table(reset, (), whole=whole),
        "power": _table(power, (), whole=whole),
        "quirks": _says(
            "What it does unlike others.",
            {"type": "array", "uniqueItems": True, "items": {"enum": [quirk.value for quirk in QUIRKS]}},
        ),
        "sources": _says('Where values are from, by their place: "soc.npu".', _table_of(_TEXT)),
        "tried": _says("Who tried values on a real board, by their place.", _table_of(_TEXT)),
    }
    return _table(properties, ("description", "npus", "soc", "loading", "link"), whole=whole)


def document() -> str:
    """Return the text of docs/board.schema.json: of files that may extend others."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A board of ethos-hil",
        "description": "docs/boards.md explains it. A file without `extends` needs more of these keys.",
    }
    return json.dumps({**head, **board_schema(whole=False)}, indent=2) + "\n"


def main() -> None:
    """Write the document."""
    path = Path(__file__).resolve().parents[2] / DOCUMENT
    path.write_text(document())
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
