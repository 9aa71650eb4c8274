"""`python -m ethos_hil.suites.lab bench`: a bench board until its standard input ends, or it gets SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.files import write_whole
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.suites.lab.bench.bench_board import board_text, loading_of
from ethos_hil.suites.lab.bench.bench_server import BenchServer
from ethos_hil.suites.lab.bench.faults import BenchFault, FaultSpec


def main(
    npu: Annotated[str, typer.Option(help="Its NPU.")] = "ethos-u55-128",
    baud: Annotated[
        int | None,
        typer.Option(min=0, help="Speed of its line, 0 for any; default: as its ends are set; noise if they differ."),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(help=f"[to-board.|to-host.]NAME[:ARGUMENT]...; names: {', '.join(BenchFault)}."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is random in the faults.")] = 0,
    board_file: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write the file there with which ethos-hil finds it.")
    ] = None,
) -> None:
    """Be a board: print where its gdb server, its serial device and its switches are, and serve them."""
    faults = [FaultSpec.parse(text) for text in fault or ()]
    ended, ending = os.pipe()
    os.set_blocking(ending, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda sent, frame: os.write(ending, b"!"))
    with BenchServer(EthosU.parse(npu), baud, faults, seed) as server:
        addresses = server.addresses
        if board_file is not None:
            write_whole(board_file, board_text(loading_of(addresses["gdb"]), addresses["serial"], addresses["control"]))
        sys.stdout.write(json.dumps(addresses) + "\n")
        sys.stdout.flush()
        server.serve((sys.stdin.fileno(), ended))
