"""A bench board for a test: a process of its own, and where it is reached."""

from __future__ import annotations

import json
import os
import select
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.process import dies_with, interrupts_deferred, wait_for_end

POWER = Path(__file__).with_name("power.sh")
"""The program of a board file's power commands."""
BOARD_FILE = Path(__file__).with_name("bench-corstone-300.toml")
"""What the harness has to know of it, but for its ports."""
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_CONTROL_SECONDS = 60.0


class BenchBoard:
    """A running bench board. A context manager: leaving it ends its process.

    Attributes:
        gdb: "host:port" of its gdb server.
        serial: path of its serial device.
        control: "host:port" of its switches.
    """

    def __init__(
        self,
        npu: str = "ethos-u55-128",
        *,
        baud: int | None = None,
        faults: Sequence[str] = (),
    ) -> None:
        """Start one.

        Args:
            npu: its NPU.
            baud: bits per second of its line whatever its ends say; 0: bytes take no time; None: as they are set.
            faults: as `FaultSpec.parse` takes them.

        Raises:
            TargetNotAvailable: it did not start; has its message.
        """
        command = [sys.executable, "-m", "ethos_hil.suites.lab", "bench", "--npu", npu]
        command += [] if baud is None else ["--baud", str(baud)]
        command += [word for fault in faults for word in ("--fault", fault)]
        with interrupts_deferred():
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C on the terminal ends the test, which ends this
                preexec_fn=dies_with(os.getpid()),
            )
        try:
            addresses = json.loads(self._first_line(Deadline(_START_SECONDS)))
        except ValueError:
            self.close()
            status = self._process.poll()
            raise TargetNotAvailable(f"the bench board did not start: {shlex.join(command)}, status {status}") from None
        except BaseException:
            self.close()
            raise
        self.gdb, self.serial, self.control = addresses["gdb"], addresses["serial"], addresses["control"]

    def __enter__(self) -> BenchBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, line: str) -> str:
        """Send a line to the control port: "power cycle", "reset", "fault drop:100", "heal". Return the answer.

        Raises:
            TargetNotAvailable: the answer is not "ok".
        """
        host, _, port = self.control.rpartition(":")
        with socket.create_connection((host, int(port)), _CONTROL_SECONDS) as stream, stream.makefile("rw") as lines:
            lines.write(line + "\n")
            lines.flush()
            answer = str(lines.readline()).strip()
        if not answer.startswith("ok"):
            raise TargetNotAvailable(f"the bench board answered {answer!r} to {line!r}")
        return answer.removeprefix("ok").strip()

    def status(self) -> dict[str, Any]:
        """Return its counters: see `ethos_hil.suites.lab.bench.bench_server`."""
        counters: dict[str, Any] = json.loads(self.tell("status"))
        return counters

    def power_command(self, what: str) -> list[str]:
        """Return the command line of a board file's power command: "on", "off" or "cycle"."""
        return power_command(self.control, what)

    def write_board_file(
        self, folder: Path, name: str = "bench", *, loading: str = "", url: str = "", power: bool = True
    ) -> Path:
        """Write the file with which the harness finds it, and return its path for `--target board:PATH`.

        Args:
            folder: where.
            name: of the board.
            loading: the lines of its `[loading]` where a probe is in front of its gdb server.
            url: of its serial line where that is not its device.
            power: whether the file says how to switch it off and on.
        """
        path = folder / f"{name}.toml"
        control = self.control if power else None
        path.write_text(board_text(loading or loading_of(self.gdb), url or self.serial, control))
        return path

    def close(self) -> None:
        """End it. May be called again."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            wait_for_end(self._process, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _first_line(self, deadline: Deadline) -> bytes:
        assert self._process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._process.stdout], [], [], deadline.remaining)[0]:
                break
            data = os.read(self._process.stdout.fileno(), 4096)
            if not data:
                break
            line += data
        return line


def power_command(control: str, what: str) -> list[str]:
    """Return the command line that switches the board at a control port: "on", "off" or "cycle"."""
    return [str(POWER), control, "power", what]


def loading_of(gdb: str) -> str:
    """Return the lines of `[loading]` for a gdb server of the bench's at "host:port"."""
    return f'server = "running"\ndialect = "qemu"\naddress = {json.dumps(gdb)}\n'


def board_text(loading: str, url: str, control: str | None) -> str:
    """Return the file of a bench board.

    Args:
        loading: the lines of its `[loading]`.
        url: of its serial line.
        control: "host:port" of its switches; None for a file that does not say how to switch it off and on.
    """
    text = f"extends = {json.dumps(str(BOARD_FILE))}\n\n[loading]\n{loading}\n[link]\nurl = {json.dumps(url)}\n"
    if control is None:
        return text
    commands = "".join(f"{what} = {json.dumps(power_command(control, what))}\n" for what in ("on", "off", "cycle"))
    return f"{text}\n[power]\n{commands}settle = 0.1\n"
