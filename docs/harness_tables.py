"""Tables of the documents that are made from the harness: boards, and the parameters and options of FVPs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ethos_hil.harness.boards.board import QUIRKS, Board, Server
from ethos_hil.harness.boards.board_schema import board_schema
from ethos_hil.harness.boards.catalogue import shipped_boards
from ethos_hil.harness.fvp_stand_in import parameters
from ethos_hil.harness.fvp_stand_in.command_line import OPTIONS
from ethos_hil.harness.socs.registry import MODELS
from ethos_hil.harness.targets.fvp_parameters import PARAMETERS, Need, Use
from ethos_hil.suites.lab.shared import markdown_table

_NOT_SHOWN = ("description", "notes", "quirks")


def board_tables() -> dict[str, str]:
    """Return each table in Markdown: all boards, all keys, all quirks, and the values of each board by its name."""
    boards = shipped_boards()
    return {
        "boards": _boards(boards),
        "board-keys": _keys(),
        "board-quirks": markdown_table(
            ("quirk", "what it is, and what is done"), ((f"`{q}`", text) for q, text in QUIRKS.items())
        ),
        **{f"board-{board.name}": _values(board) for board in boards},
    }


def _boards(boards: Iterable[Board]) -> str:
    rows = []
    for board in boards:
        server = "its controller" if board.loading.server is Server.NONE else str(board.loading.server)
        npus = (
            board.npus[0] if len(board.npus) == 1 else f"{board.npus[0].rpartition('-')[0]}, as the FPGA image has it"
        )
        places = board.soc.firmware
        memories = f"code in {places.code}, data in {places.data}, programs in {_home(board)}"
        rows.append((f"`{board.name}`", board.description, npus, server, memories))
    return markdown_table(("board", "what it is", "NPU", "loaded by", "memories"), rows)


def _home(board: Board) -> str:
    memory = board.soc.memory_at(board.soc.firmware.package.base)
    return "" if memory is None else memory.name


def _values(board: Board) -> str:
    rows = (
        (f"`{value.key}`", str(value), value.source, value.tried)
        for value in board.values
        if value.key not in _NOT_SHOWN
    )
    return markdown_table(("key", "value", "source", "tried by"), rows)


def _keys() -> str:
    rows = ((f"`{key}`", kind, text) for key, kind, text in _described(board_schema(whole=True)))
    return markdown_table(("key", "what it holds", "what it says"), rows)


def _described(schema: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    needed = schema.get("required", ())
    for name, entry in schema["properties"].items():
        key = f"{prefix}{name}"
        text = entry.get("description", "")
        values = entry.get("additionalProperties")
        if isinstance(values, Mapping) and "properties" in values:
            yield key, "tables", text
            yield from _described(values, f"{key}.NAME.")
        elif "properties" not in entry:
            yield key, _kind(entry, needed=name in needed), text
        else:
            if text:
                yield key, _kind(entry, needed=name in needed), text
            yield from _described(entry, f"{key}.")


def _kind(schema: Mapping[str, Any], *, needed: bool) -> str:
    kinds = schema.get("type", "one of " + ", ".join(f"`{value}`" for value in schema.get("enum", ())))
    kind = "text or a table" if isinstance(kinds, list) else {
        "string": "text", "integer": "a whole number", "number": "a number", "boolean": "`true` or `false`",
        "array": "a list", "object": "a table",
    }.get(kinds, kinds)  # fmt: skip
    return f"{kind}, needed" if needed else kind


_WITHOUT = {
    Need.NEEDED: "the run is refused",
    Need.USUAL: "left out, with a note",
    Need.EXTRA: "left out",
}


def fvp_settings() -> str:
    """Return a row for each parameter that FVPs are run with."""
    rows = [
        (dict.fromkeys(row.name(model.fvp) for model in MODELS.values()), row.value, row.use, row.need, row.why)
        for row in PARAMETERS
    ]
    for use in (Use.EVERY_RUN, Use.RUNNER):
        for model in MODELS.values():
            own = model.fvp.settings if use is Use.EVERY_RUN else model.fvp.runner_settings
            why = f"{model.fvp.executable} only"
            rows += [({name: None}, value, use, Need.USUAL, why) for name, value in own]
    return markdown_table(
        ("parameter", "value", "set for", "an FVP without it", ""),
        ((_names(names), f"`{value}`", use.value, _WITHOUT[need], why) for names, value, use, need, why in rows),
    )


def launcher_parameters() -> str:
    """Return a row for each parameter of `-C` of our launchers, by its names on the FVPs that have it."""
    return markdown_table(
        ("parameter", "what becomes of it", ""),
        (
            (_names(row.name(model) for model in MODELS.values() if row.on(model)), row.treatment.value, row.note)
            for row in parameters.PARAMETERS
        ),
    )


def launcher_options() -> str:
    """Return a row for each other option of our launchers."""
    rows = ((f"`{option.spelling}`", option.treatment.value, option.note) for option in OPTIONS)
    return markdown_table(("option", "what becomes of it", ""), rows)


def _names(names: Iterable[str]) -> str:
    return "<br>".join(f"`{name}`" for name in dict.fromkeys(names))
