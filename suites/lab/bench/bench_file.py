"""The board file of a running bench board."""

from __future__ import annotations

from pathlib import Path

from ethos_hil.harness.boards.catalogue import BOARDS_VARIABLE
from ethos_hil.suites.lab.bench.bench_board import POWER, BenchBoard

__all__ = ["BOARDS_VARIABLE", "bench_file"]


def bench_file(board: BenchBoard, folder: Path, name: str = "bench-corstone-300", more: str = "") -> Path:
    """Write the file of a bench board.

    Args:
        board: the board.
        folder: where the file goes.
        name: of the board.
        more: text that ends the file.

    Returns:
        its path.
    """
    path = folder / f"{name}.toml"
    path.write_text(
        f"""extends = "mps3-an547"
description = "the laboratory's bench board"
simulated = true

[loading]
server = "running"
dialect = "qemu"
address = "{board.gdb}"

[link]
url = "{board.serial}"
baud = 115200
fastest_baud = 921600

[reset]
commands = ["system_reset"]

[power]
cycle = ["{POWER}", "{board.control}", "cycle"]
settle = 0.5
{more}"""
    )
    return path
