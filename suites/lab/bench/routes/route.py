"""The ways from the harness to a bench board."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil.suites.lab.bench.probes.probe_server import ProbeKind
from ethos_hil.suites.lab.bench.probes.simulated_probe import SimulatedProbe, program
from ethos_hil.suites.lab.bench.ser2net import Ser2net, ser2net_program


class Route(StrEnum):
    """What is between the harness and the board."""

    GDB = "gdb"
    """Nothing: its gdb port and its pty."""
    PYOCD = "pyocd"
    """pyOCD, which the harness starts, on a simulated probe."""
    OPENOCD = "openocd"
    """OpenOCD, which the harness starts, on a simulated probe."""
    SER2NET = "ser2net"
    """ser2net: the serial line is reached by RFC 2217."""

    @property
    def way(self) -> str:
        """What a table calls it."""
        return {
            Route.GDB: "gdb port, pty",
            Route.PYOCD: "pyOCD, pty",
            Route.OPENOCD: "OpenOCD, pty",
            Route.SER2NET: "gdb port, ser2net",
        }[self]

    def require(self) -> None:
        """Make sure that the programs on the way are installed.

        Raises:
            TargetNotAvailable: one is not; says how to install it.
        """
        if self is Route.SER2NET:
            ser2net_program()
        elif self is not Route.GDB:
            program(ProbeKind(self.value))


@dataclass(frozen=True)
class RoutedBoard:
    """A bench board with a way to it.

    Attributes:
        bench: the board.
        file: its board file.
    """

    bench: BenchBoard
    file: Path


@contextlib.contextmanager
def routed_board(
    route: Route, folder: Path, name: str = "bench", *, npu: str = "ethos-u55-128"
) -> Iterator[RoutedBoard]:
    """Start a bench board and what is on the way to it. All of it ends with the context.

    Args:
        route: the way.
        folder: for its files.
        name: of the board.

    Raises:
        TargetNotAvailable: something is not installed, or does not start.
    """
    route.require()
    with contextlib.ExitStack() as stack:
        bench = stack.enter_context(BenchBoard())
        loading = url = None
        if route in (Route.PYOCD, Route.OPENOCD):
            loading = stack.enter_context(SimulatedProbe(ProbeKind(route.value), bench.gdb)).loading()
        elif route is Route.SER2NET:
            url = stack.enter_context(Ser2net(bench.serial, folder)).url
        yield RoutedBoard(bench, bench.write_board_file(folder, name, loading=loading, url=url))
