"""`python -m ethos_hil.suites.lab.bench.probes pyocd --gdb HOST:PORT`: a probe until its input ends, or SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Annotated

import typer

from ethos_hil.harness.boards.gdb_server import parse_address
from ethos_hil.suites.lab.bench.probes.probe_server import ProbeKind, ProbeServer
from ethos_hil.suites.lab.command import start


def main(
    kind: Annotated[ProbeKind, typer.Argument(help="Whose program talks to it.")],
    gdb: Annotated[str, typer.Option(help="host:port of the board's gdb port.")],
) -> None:
    """Be a debug probe in front of a gdb port: print where pyOCD or OpenOCD finds it, and serve it."""
    host, port = parse_address(gdb)
    ended, ending = os.pipe()
    os.set_blocking(ending, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda sent, frame: os.write(ending, b"!"))
    with ProbeServer(kind, host, port) as server:
        sys.stdout.write(json.dumps({"address": server.address}) + "\n")
        sys.stdout.flush()
        server.serve((sys.stdin.fileno(), ended))


if __name__ == "__main__":
    start(main)
