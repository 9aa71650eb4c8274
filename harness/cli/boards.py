"""`ethos-hil boards`: the boards that models can run on, and what is known of each."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ethos_hil.base.plain_text import escaped, one_line
from ethos_hil.harness.cli.boards_bring_up import bring_up
from ethos_hil.harness.cli.common_options import DEBUG

if TYPE_CHECKING:
    from ethos_hil.base.errors import EthosHilError
    from ethos_hil.harness.boards.board import Board

SCHEMA_VERSION = 1
_JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_BOARD = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A board's name, or the path of its .toml file.")]

boards = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
boards.command("bring-up")(bring_up)


@boards.callback()
def all_of_them(context: typer.Context, as_json: _JSON = False, debug: DEBUG = False) -> None:
    """List the boards; with a command, check, explain or bring up one. `--target board:NAME` runs a model on it.

    A board is a TOML file. Those that are shipped come with this package; yours are found in the folders of
    ETHOS_HIL_BOARDS and in ~/.config/ethos-hil/boards, or given as a path: --target board:./my-board.toml.

    Your own bench is three lines, in my-e8.toml:

    \b
      extends = "alif-e8-hp"
      link = { url = "/dev/ttyACM0" }
      loading = { serial = "001234567890" }

    docs/boards.md has all keys, and where each address of a shipped board is from.
    """
    context.obj = as_json
    if context.invoked_subcommand is None:
        _list(as_json)


@boards.command()
def check(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Boards. Default: all that are found.")
    ] = None,
    as_json: _JSON = False,
    debug: DEBUG = False,
) -> None:
    """Check files of boards, and tell what is missing on this machine to use them. No board is touched.

    Whether memories overlap, the NPU reaches the package, the firmware's places exist, the UART can make the baud rate,
    and so on. Exit status: 0 all are right, 2 a file is wrong.

    Example: ethos-hil boards check my-e8.toml
    """
    from ethos_hil.base.errors import UsageError
    from ethos_hil.harness.boards.catalogue import board_files, find_board

    right: list[Board] = []
    wrong: list[UsageError] = []
    for name in names or [str(path) for path in board_files().values()]:
        try:
            right.append(find_board(name))
        except UsageError as error:
            wrong.append(error)
    if as_json or context.obj:
        rows = [{"name": board.name, "file": str(board.path), "missing": missing(board)} for board in right]
        document = {"schema_version": SCHEMA_VERSION, "boards": rows, "unusable": [_problem(error) for error in wrong]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        for board in right:
            needed = missing(board)
            note = f"; to use it here: {', '.join(needed)}" if needed else ""
            sys.stdout.write(one_line(f"{board.name}: right{note}") + "\n")
    for other in wrong[1:]:
        _warn(other)
    if wrong:
        raise wrong[0]


@boards.command()
def explain(context: typer.Context, name: _BOARD, as_json: _JSON = False, debug: DEBUG = False) -> None:
    """Show every value of a board with its source, and who tried it on a real one.

    "untried" means that nobody is known to have run this software with that value on the real board: it was read in the
    source that is named, and compared with it.

    Example: ethos-hil boards explain alif-e8-hp
    """
    from ethos_hil.harness.boards.catalogue import find_board

    board = find_board(name)
    if as_json or context.obj:
        sys.stdout.write(json.dumps(_explained(board), indent=2) + "\n")
        return

    from ethos_hil.harness.boards.board import QUIRKS
    from ethos_hil.harness.terminal.console import add_row, console, folded, table_of

    head = [f"{board.name}: {board.description}", f"file: {board.path}"]
    head += [f"firmware: {board.soc.firmware.name}, of {board.soc.summary}", f"NPUs: {', '.join(board.npus)}"]
    head += [f"reset: {'; '.join(board.reset.commands) or 'none'}", *(f"note: {note}" for note in board.notes)]
    head += [f"quirk: {quirk}: {QUIRKS[quirk]}" for quirk in board.quirks]
    sys.stdout.write("".join(f"{one_line(line)}\n" for line in [*head, ""]))
    table = table_of(*folded("key", "value", "source", "tried"))
    for value in board.values:
        if value.key not in ("description", "notes", "quirks"):
            add_row(table, value.key, str(value), value.source, value.tried)
    console().print(table)


def missing(board: Board) -> list[str]:
    """Return what this machine or the board's file lacks to use it, as phrases."""
    from ethos_hil.harness.boards.board import Server

    lacking = []
    if board.link.url is None:
        lacking.append("state link.url, the serial port")
    server = board.loading.server
    if server not in (Server.NONE, Server.RUNNING) and shutil.which(board.loading.command[0]) is None:
        lacking.append(f"install {escaped(board.loading.command[0])}")
    if len(board.npus) > 1:
        lacking.append("state npus, the one that the FPGA image has")
    return lacking


def _list(as_json: bool) -> None:
    from ethos_hil.harness.boards.catalogue import all_boards

    found, wrong = all_boards()
    for error in wrong:
        _warn(error)
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "boards": [_summary(board) for board in found],
            "unusable": [_problem(error) for error in wrong],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return

    from ethos_hil.harness.targets.registry import families
    from ethos_hil.harness.terminal.console import add_row, console, folded, table_of

    table = table_of(*folded("board", "what it is", "NPUs", "loaded by", "link", "to use it here"))
    for board in found:
        link = f"{board.link.url or '?'} at {board.link.baud}"
        here = ", ".join(missing(board)) or "nothing is missing"
        npus = board.npus[0] if len(board.npus) == 1 else families(board.npus)
        add_row(table, board.name, board.description, npus, _loaded_by(board), link, here)
    console().print(table)


def _loaded_by(board: Board) -> str:
    from ethos_hil.harness.boards.board import Server

    server = board.loading.server
    if server is Server.RUNNING:
        return f"{board.loading.dialect} at {board.loading.address}"
    return "its controller" if server is Server.NONE else server.value


def _summary(board: Board) -> dict[str, Any]:
    return {
        "name": board.name,
        "description": board.description,
        "soc": board.soc.name,
        "npus": list(board.npus),
        "server": board.loading.server.value,
        "link": board.link.url,
        "baud": board.link.baud,
        "file": str(board.path),
        "shipped": board.path.parent == _shipped(),
        "missing": missing(board),
    }


def _shipped() -> Path:
    from ethos_hil.harness.boards.catalogue import SHIPPED

    return SHIPPED


def _explained(board: Board) -> dict[str, Any]:
    values = [
        {"key": each.key, "value": each.value, "source": each.source, "tried": each.tried} for each in board.values
    ]
    return {"schema_version": SCHEMA_VERSION, **_summary(board), "reset": list(board.reset.commands), "values": values}


def _problem(error: EthosHilError) -> dict[str, str | None]:
    return {"message": error.message, "hint": error.hint}


def _warn(error: EthosHilError) -> None:
    sys.stderr.write(
        one_line(f"ethos-hil: warning: {error.message}" + (f" ({error.hint})" if error.hint else "")) + "\n"
    )
