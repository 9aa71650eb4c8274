"""The tables of docs/boards.md, made of the files of the boards that are shipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ethos_hil.harness.boards.board import QUIRKS, Board, Server
from ethos_hil.harness.boards.board_schema import board_schema
from ethos_hil.harness.boards.catalogue import shipped_boards

_NOT_SHOWN = ("description", "notes", "quirks")


def tables() -> dict[str, str]:
    """Return each table in Markdown: all boards, all keys, all quirks, and the values of each board by its name."""
    boards = shipped_boards()
    return {
        "boards": _boards(boards),
        "board-keys": _keys(),
        "board-quirks": _table(
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
    return _table(("board", "what it is", "NPU", "loaded by", "memories"), rows)


def _home(board: Board) -> str:
    memory = board.soc.memory_at(board.soc.firmware.package.base)
    return "" if memory is None else memory.name


def _values(board: Board) -> str:
    rows = (
        (f"`{value.key}`", str(value), value.source, value.tried)
        for value in board.values
        if value.key not in _NOT_SHOWN
    )
    return _table(("key", "value", "source", "tried by"), rows)


def _keys() -> str:
    rows = ((f"`{key}`", kind, text) for key, kind, text in _described(board_schema(whole=True)))
    return _table(("key", "what it holds", "what it says"), rows)


def _described(schema: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    needed = schema.get("required", ())
    for name, each in schema["properties"].items():
        key = f"{prefix}{name}"
        text = each.get("description", "")
        values = each.get("additionalProperties")
        if isinstance(values, Mapping) and "properties" in values:
            yield key, "tables", text
            yield from _described(values, f"{key}.NAME.")
        elif "properties" not in each:
            yield key, _kind(each, needed=name in needed), text
        else:
            if text:
                yield key, _kind(each, needed=name in needed), text
            yield from _described(each, f"{key}.")


def _kind(schema: Mapping[str, Any], *, needed: bool) -> str:
    kinds = schema.get("type", "one of " + ", ".join(f"`{value}`" for value in schema.get("enum", ())))
    kind = "text or a table" if isinstance(kinds, list) else {
        "string": "text", "integer": "a whole number", "number": "a number", "boolean": "`true` or `false`",
        "array": "a list", "object": "a table",
    }.get(kinds, kinds)  # fmt: skip
    return f"{kind}, needed" if needed else kind


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
