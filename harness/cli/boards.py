"""`ethos-hil boards`: the boards that models can run on, and what is known of each."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.plain_text import escape, one_line
from ethos_hil.harness.cli.asking import AS_JSON, DEBUG, file_option
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_json, write_out

if TYPE_CHECKING:
    from ethos_hil.harness.boards.board import Board
    from ethos_hil.harness.boards.bring_up_report import BringUpStep

SCHEMA_VERSION = 1
_BOARD = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A board's name, or the path of its .toml file.")]

_COLOURS = {"ok": "green", "failed": "red", "left out": "yellow"}
_STATUS_WIDTH, _NAME_WIDTH, _SECONDS_WIDTH = 8, 17, 7

boards = typer.Typer(invoke_without_command=True, rich_markup_mode=None, add_completion=False)


@boards.command("bring-up")
def bring_up(
    context: typer.Context,
    name: _BOARD,
    npu: Annotated[
        str, typer.Option(metavar="NPU", help="The NPU that it has to have. Default: one of those in its file.")
    ] = "",
    json_file: Annotated[Path | None, file_option("--json", "all that was found there, as JSON", instead="")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Write a report there, to attach to an issue.")
    ] = None,
    debug: DEBUG = False,
) -> None:
    """Check a board that is new, or that does not do what it did, step by step.

    \b
      file              its values agree with one another
      lease             no one else on this machine uses it
      probe             the server answers, the processor halts, and is the right one
      memory ...        memories of the firmware and its packages keep what is written
      firmware          it is loaded, read back and started: bytes per second
      monitor           it hears and answers on the serial line: clock, number, its code's CRC-32
      npu               the NPU's registers are where the file says, and it is the file's
      speed             a megabyte at the fastest speed of the file
      convolution       a model runs, and its answers are right, bit for bit: interrupt, memories, caches
      clock             the processor's cycle counter runs as fast as the firmware says

    Each is ok, failed, or left out because it needs one that is not ok. A failed one says what to do. Memory that is
    tested is put back; the firmware stays on the board. docs/tutorials/first-board.md is the way from the box to here.

    Exit status: 0 none failed, 1 one failed, 2 unusable arguments or a wrong file, 3 a program, probe or port is not
    there.

    Example: ethos-hil boards bring-up my-e8 --report bring-up.md
    """
    import hashlib

    from ethos_hil.base import environment
    from ethos_hil.harness.boards.bring_up import BringUp
    from ethos_hil.harness.boards.bring_up_report import BringUpReport
    from ethos_hil.harness.boards.catalogue import find_board
    from ethos_hil.harness.cli.commands import never_exiting
    from ethos_hil.harness.terminal.progress import Live

    board = find_board(name)
    if npu and npu not in board.npus:
        raise UsageError(f"{board.name} cannot have an {npu!r}", hint=f"its file has {', '.join(board.npus)}")
    json_file = json_file or (STDOUT if context.obj else None)
    check_files([json_file, report])
    check_distinct({"--json": json_file, "--report": report}, {"FILE": board.path})
    shown = STDOUT not in (json_file, report)
    created = environment.now()
    with Live() as live, never_exiting():
        check = BringUp(board, f"board:{name}", npu, _show_step if shown else lambda step: None, live)
        steps = check.run()
    digest = "" if check.firmware is None else hashlib.sha256(check.firmware.elf).hexdigest()
    done = BringUpReport(board, check.npu, steps, digest, created)
    if json_file is not None:
        write_json(json_file, done.document())
    if report is not None:
        write_out(report, done.markdown())
    if shown:
        sys.stdout.write(f"\n{done.summary}\n")
    raise typer.Exit(done.exit_status)


def _show_step(step: BringUpStep) -> None:
    """Show a step as a row. Each is a table of its own, because the next one comes later."""
    from rich.table import Table
    from rich.text import Text

    from ethos_hil.base.console import add_row, console

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(width=_STATUS_WIDTH)
    table.add_column(width=_NAME_WIDTH, overflow="fold")
    table.add_column(width=_SECONDS_WIDTH, justify="right")
    table.add_column(overflow="fold")
    finding = step.finding
    kind = "" if finding.kind is None else f"{finding.kind}: "
    status = Text(str(finding.status), style=_COLOURS[finding.status])
    add_row(table, status, step.name, f"{step.seconds:.1f} s", f"{kind}{one_line(finding.text)}")
    if finding.remedy:
        add_row(table, "", "", "", f"-> {one_line(finding.remedy)}")
    console().print(table)
    sys.stdout.flush()


@boards.callback()
def all_of_them(context: typer.Context, as_json: AS_JSON = False, debug: DEBUG = False) -> None:
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
    elif as_json and context.invoked_subcommand != "bring-up":
        raise UsageError(
            f"`boards {context.invoked_subcommand}` has no --json", hint="`boards --json` lists all boards"
        )


@boards.command()
def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Boards. Default: all that are found.")
    ] = None,
    debug: DEBUG = False,
) -> None:
    """Check files of boards, and tell what is missing on this machine to use them. No board is touched.

    Whether memories overlap, the NPU reaches the package, the firmware's places exist, the UART can make the baud rate,
    and so on. Exit status: 0 all are right, 2 a file is wrong.

    Example: ethos-hil boards check my-e8.toml
    """
    from ethos_hil.harness.boards.catalogue import board_files, find_board

    right: list[Board] = []
    wrong: list[UsageError] = []
    for name in names or [str(path) for path in board_files().values()]:
        try:
            right.append(find_board(name))
        except UsageError as error:
            wrong.append(error)
    for board in right:
        needed = missing(board)
        note = f"; to use it here: {', '.join(needed)}" if needed else ""
        sys.stdout.write(one_line(f"{board.name}: right{note}") + "\n")
    for other in wrong[1:]:
        _warn(other)
    if wrong:
        raise wrong[0]


@boards.command()
def explain(name: _BOARD, debug: DEBUG = False) -> None:
    """Show every value of a board with its source, and who tried it on a real one.

    "untried" means that no one is known to have run this software with that value on the real board: it was read in the
    source that is named, and compared with it.

    Example: ethos-hil boards explain alif-e8-hp
    """
    from ethos_hil.harness.boards.catalogue import find_board

    board = find_board(name)
    from ethos_hil.base.console import add_row, console, folded, table_of
    from ethos_hil.harness.boards.board import QUIRKS

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
        lacking.append(f"install {escape(board.loading.command[0])}")
    if len(board.npus) > 1:
        lacking.append("state npus, the one that the FPGA image has")
    return lacking


def _list(as_json: bool) -> None:
    from ethos_hil.harness.boards.catalogue import all_boards

    usable, wrong = all_boards()
    for error in wrong:
        _warn(error)
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "boards": [_summary(board) for board in usable],
            "unusable": [{"message": error.message, "hint": error.hint} for error in wrong],
        }
        write_json(STDOUT, document)
        return

    from ethos_hil.base.console import add_row, console, folded, table_of
    from ethos_hil.harness.targets.registry import families

    table = table_of(*folded("board", "what it is", "NPUs", "loaded by", "link", "to use it here"))
    for board in usable:
        link = f"{board.link.url or '?'} at {board.link.baud}"
        here = ", ".join(missing(board)) or "nothing is missing"
        npus = board.npus[0] if len(board.npus) == 1 else families(board.npus)
        add_row(table, board.name, board.description, npus, _loader_of(board), link, here)
    console().print(table)


def _loader_of(board: Board) -> str:
    from ethos_hil.harness.boards.board import Server

    server = board.loading.server
    if server is Server.RUNNING:
        return f"{board.loading.dialect} at {board.loading.address}"
    return "its controller" if server is Server.NONE else server.value


def _summary(board: Board) -> dict[str, Any]:
    from ethos_hil.harness.boards.catalogue import SHIPPED

    return {
        "name": board.name,
        "description": board.description,
        "soc": board.soc.name,
        "npus": list(board.npus),
        "server": board.loading.server.value,
        "link": board.link.url,
        "baud": board.link.baud,
        "file": str(board.path),
        "shipped": board.path.parent == SHIPPED,
        "missing": missing(board),
    }


def _warn(error: EthosHilError) -> None:
    sys.stderr.write(
        one_line(f"ethos-hil: warning: {error.message}" + (f" ({error.hint})" if error.hint else "")) + "\n"
    )
