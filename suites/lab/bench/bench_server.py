"""The bench board's process: one thread for the board and its ports, another one for the serial line."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer

from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.files import write_whole
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.virtual.mps3_an547 import UART0
from ethos_hil.suites.lab.bench.bench_board import board_text, loading_of
from ethos_hil.suites.lab.bench.faults import BenchFault, FaultSpec
from ethos_hil.suites.lab.bench.gdb_port import GdbPort
from ethos_hil.suites.lab.bench.guest import LOST, BenchGuest
from ethos_hil.suites.lab.bench.line_uart import LineUart
from ethos_hil.suites.lab.bench.paced_line import PacedLine


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


SOC = find_soc("corstone-300")
"""The system on chip: the virtual one whose UART can be taken from QEMU."""
_MOST_ALARMS = 64
_CONTROL_SECONDS = 5.0
_LONGEST = 4096


class BenchServer:
    """A board with power, and its ports. A context manager: leaving it leaves nothing behind."""

    def __init__(self, npu: EthosU, baud: int | None, faults: Sequence[FaultSpec], seed: int) -> None:
        """Switch a board on.

        Args:
            npu: configuration of its NPU.
            baud: bits per second of the line whatever its ends are set to; 0: bytes take no time; None: as they are
                set.
            faults: that it has from the start.
            seed: of what is random in those of the line.

        Raises:
            UsageError: the board cannot have this NPU.
            TargetNotAvailable: QEMU does not start.
        """
        if npu.name not in SOC.npu_names:
            raise UsageError(f"a {SOC.name} cannot have an {npu.name}", hint=f"use one of {', '.join(SOC.npu_names)}")
        self._closers = contextlib.ExitStack()
        try:
            self._uart = LineUart(UART0)
            self._closers.callback(self._uart.close)
            self._line = PacedLine(self._uart, SOC.peripheral_hz, baud, seed)
            self._closers.callback(self._line.stop)
            self._guest = BenchGuest(SOC, npu, self._uart, self._line.reset_board)
            self._closers.callback(self._guest.power_off)
            self._gdb = GdbPort(self._guest)
            self._closers.callback(self._gdb.close)
            self._control = socket.create_server(("127.0.0.1", 0))
            self._closers.callback(self._control.close)
            self._guest.power_on()
            for fault in faults:
                self._arm(fault)
            self._line.start()
        except BaseException:
            self._closers.close()
            raise

    def __enter__(self) -> BenchServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closers.close()

    @property
    def addresses(self) -> dict[str, str]:
        """Where it is reached: "gdb", "serial" and "control"."""
        return {
            "gdb": self._gdb.address,
            "serial": self._line.path,
            "control": f"127.0.0.1:{self._control.getsockname()[1]}",
        }

    def serve(self, until: Sequence[int]) -> None:
        """Be the board until one of these file descriptors is readable."""
        while True:
            sources: list[int | socket.socket] = [*until, self._line.alarm_file, *self._gdb.sources(), self._control]
            if self._guest.board is not None:
                sources.append(self._guest.fileno())
            ready = select.select(sources, [], [], 0.0 if self._pending() else None)[0]
            if any(source in until for source in ready):
                return
            self._look_at_board()
            for source in ready:
                if isinstance(source, socket.socket):
                    self._handle(source)
            self._follow_alarms()

    def _pending(self) -> bool:
        """Whether QEMU's next packet has been read already."""
        return self._guest.board is not None and self._guest.board.gdb.pending()

    def _look_at_board(self) -> None:
        if self._guest.board is None:
            return
        try:
            stop = self._guest.look()
        except LOST:
            self._guest.ended()
        else:
            if stop is not None:
                self._gdb.stopped(stop)

    def _handle(self, source: socket.socket) -> None:
        if source is self._control:
            self._serve_control()
            return
        try:
            self._gdb.ready(source)
        except LOST:
            self._guest.ended()
            self._gdb.drop()

    def _serve_control(self) -> None:
        """Answer one line of a client of the control port, which sends it at once. `power.sh` is one."""
        client, _ = self._control.accept()
        client.settimeout(_CONTROL_SECONDS)
        with client, contextlib.suppress(OSError), client.makefile("rw", errors="replace") as lines:
            line = lines.readline(_LONGEST).strip()
            if line:
                lines.write(f"{self._execute(line)}\n")

    def _follow_alarms(self) -> None:
        """Do what the number of bytes on the line has set off."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._line.alarm_file, _MOST_ALARMS)
        with contextlib.suppress(queue.Empty):
            while True:
                spec = self._line.alarms.get_nowait()
                if spec.kind is BenchFault.RESET:
                    self._reset()
                elif spec.kind is BenchFault.HANG:
                    self._guest.hang()
                else:
                    self._power("cycle")

    def _arm(self, spec: FaultSpec) -> None:
        for part in (self._line, self._guest, self._gdb):
            part.arm(spec)

    def _execute(self, text: str) -> str:
        """Carry out a line of the control port, and return the answer."""
        word, _, argument = text.partition(" ")
        try:
            if word == "power" and argument in ("on", "off", "cycle"):
                self._power(argument)
            elif word == "reset" and self._guest.board is not None:
                self._reset()
            elif word == "fault":
                self._arm(FaultSpec.parse(argument))
            elif word == "heal":
                for part in (self._line, self._guest, self._gdb):
                    part.heal()
            elif word == "seed" and argument.isdecimal():
                self._line.reseed(int(argument))
            elif word == "status":
                return "ok " + json.dumps(self._status())
            else:
                return "error: say power on|off|cycle, reset, seed NUMBER, fault NAME, heal or status"
        except (EthosHilError, OSError) as error:
            return f"error: {error}"
        return "ok"

    def _status(self) -> dict[str, object]:
        guest = self._guest
        return {
            "serial": self._line.path,
            "powered": guest.board is not None,
            "running": guest.running,
            "stuck": guest.stuck,
            "jobs": guest.jobs,
            "resets": guest.resets,
            "lockups": guest.lockups,
            "packets": self._gdb.served,
            "baud": SOC.peripheral_hz // self._uart.divider if self._uart.divider else 0,
            **self._line.counts(),
        }

    def _power(self, what: str) -> None:
        """Switch power; whoever debugs the board loses it."""
        if what != "on":
            self._gdb.drop()
            self._guest.power_off()
        if what != "off" and self._guest.board is None:
            self._guest.power_on()

    def _reset(self) -> None:
        """Press the reset button. A board that a debugger has halted stays halted."""
        if self._guest.board is None:
            return
        was_running = self._guest.running
        if was_running:
            self._guest.halt()
        self._guest.reset()
        if was_running:
            self._guest.resume()
