"""`ethos-hil boards bring-up`: the guided check of a board."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.cli.common_options import DEBUG

if TYPE_CHECKING:
    from ethos_hil.harness.boards.board import Board
    from ethos_hil.harness.boards.bring_up_report import BringUpReport, BringUpStep
    from ethos_hil.harness.terminal.progress import Reporter

_COLOURS = {"ok": "green", "failed": "red", "left out": "yellow"}
_STATUS_WIDTH, _NAME_WIDTH, _SECONDS_WIDTH = 8, 17, 7


def bring_up(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A board's name, or the path of its .toml file.")],
    npu: Annotated[
        str, typer.Option(metavar="NPU", help="The NPU that it has to have. Default: one of those in its file.")
    ] = "",
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write all that was found there, as JSON; - for stdout."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Write a report there, to attach to an issue.")
    ] = None,
    debug: DEBUG = False,
) -> None:
    """Check a board that is new, or that does not do what it did, step by step.

    \b
      file              its values agree with one another
      lease             nobody else on this machine uses it
      probe             the server answers, the processor halts, and is the right one
      memory ...        memories of the firmware and its packages keep what is written
      npu by probe      the NPU's registers are where the file says, and it is the file's
      firmware          it is loaded, read back and started: bytes per second
      monitor           it hears and answers on the serial line: clock, number, its code's CRC-32
      npu by firmware   the firmware finds the same NPU
      interrupt         the NPU's arrives at the processor with the file's number
      line              bytes arrive at the speed of the start: what is lost
      speed             a megabyte at the fastest speed of the file
      convolution       a model runs, and its answers are right, bit for bit: memories, caches
      clock             the processor's cycle counter runs as fast as the firmware says

    Each is ok, failed, or left out because it needs one that is not ok. A failed one says what to do. Memory that is
    tested is put back; the firmware stays on the board. docs/tutorials/first-board.md is the way from the box to here.

    Exit status: 0 none failed, 1 one failed, 2 unusable arguments or a wrong file, 3 a program, probe or port is not
    there.

    Example: ethos-hil boards bring-up my-e8 --report bring-up.md
    """
    from ethos_hil.harness.boards.catalogue import find_board
    from ethos_hil.harness.cli.commands import never_exiting, write_json
    from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_out
    from ethos_hil.harness.terminal.progress import Live

    board = find_board(name)
    _check_npu(board, npu)
    json_file = json_file or (STDOUT if context.obj else None)
    check_files([json_file, report])
    check_distinct({"--json": json_file, "--report": report}, {"FILE": board.path})
    with Live() as live, never_exiting():
        done = _checked(board, name, npu, live, shown=STDOUT not in (json_file, report))
    if json_file is not None:
        write_json(json_file, done.document())
    if report is not None:
        write_out(report, done.markdown())
    if STDOUT not in (json_file, report):
        sys.stdout.write(f"\n{done.summary}\n")
    raise typer.Exit(done.exit_status)


def _checked(board: Board, name: str, npu: str, live: Reporter, *, shown: bool) -> BringUpReport:
    import hashlib

    from ethos_hil.base import environment
    from ethos_hil.harness.boards.bring_up import BringUp, BringUpOrder
    from ethos_hil.harness.boards.bring_up_report import BringUpReport

    created = environment.now()
    check = BringUp(BringUpOrder(board, f"board:{name}", npu, _show if shown else lambda step: None, live))
    steps = check.run()
    digest = "" if check.firmware is None else hashlib.sha256(check.firmware.elf).hexdigest()
    return BringUpReport(board, check.npu, steps, digest, created)


def _check_npu(board: Board, npu: str) -> None:
    if npu and npu not in board.npus:
        raise UsageError(f"{board.name} cannot have an {npu!r}", hint=f"its file has {', '.join(board.npus)}")


def _show(step: BringUpStep) -> None:
    """Show a step as a row. Each is a table of its own, because the next one comes later."""
    from rich.table import Table
    from rich.text import Text

    from ethos_hil.base.plain_text import one_line
    from ethos_hil.harness.terminal.console import add_row, console

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
