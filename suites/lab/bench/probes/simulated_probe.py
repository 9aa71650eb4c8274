"""A simulated probe for a bench board: a process of its own, and how the harness starts pyOCD or OpenOCD for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.process import dies_with, interrupts_deferred, wait_for_end
from ethos_hil.harness.boards.board import SERVER_COMMANDS, Server
from ethos_hil.suites.lab.bench.probes.probe_server import ProbeKind

PYOCD = Path(__file__).resolve().parents[4] / "build/pyocd/bin/pyocd"
"""Where `make build/pyocd/.installed` puts it."""
OPENOCD_FILE = Path(__file__).with_name("bench.cfg")
"""OpenOCD's description of the probe and of what is behind it."""
_STOP_SECONDS = 10.0


def program(kind: ProbeKind) -> str:
    """Return the program that talks to a kind of probe.

    Raises:
        TargetNotAvailable: it is not installed.
    """
    path = shutil.which(str(PYOCD)) or shutil.which("pyocd") if kind is ProbeKind.PYOCD else shutil.which("openocd")
    if path is None:
        how = "make build/pyocd/.installed" if kind is ProbeKind.PYOCD else "apt-get install openocd"
        raise TargetNotAvailable(f"{kind} is not installed", hint=f"install it: {how}")
    return path


class SimulatedProbe:
    """A running probe. A context manager: leaving it ends its process.

    Attributes:
        kind: whose program talks to it.
        address: "host:port" for that.
    """

    def __init__(self, kind: ProbeKind, gdb: str) -> None:
        """Start one.

        Args:
            kind: whose program talks to it.
            gdb: "host:port" of the board's gdb port.

        Raises:
            TargetNotAvailable: it did not start; says more on stderr.
        """
        self.kind = kind
        command = [sys.executable, "-m", "ethos_hil.suites.lab.bench.probes", kind.value, "--gdb", gdb]
        with interrupts_deferred():
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C on the terminal ends the test, which ends this
                preexec_fn=dies_with(os.getpid()),
            )
        assert self._process.stdout is not None
        try:
            line = self._process.stdout.readline()  # a process that ends ends its output too
        except BaseException:
            self.close()
            raise
        if not line:
            self.close()
            raise TargetNotAvailable(f"the simulated probe did not start, status {self._process.poll()}")
        self.address = str(json.loads(line)["address"])

    def __enter__(self) -> SimulatedProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def loading(self) -> str:
        """Return the lines of a board file's `[loading]` with which the harness starts the program for this probe.

        Raises:
            TargetNotAvailable: the program is not installed.
        """
        path = program(self.kind)
        if self.kind is ProbeKind.PYOCD:
            command = [path, *SERVER_COMMANDS[Server.PYOCD][1:]]
            device, serial = "cortex_m", f"remote:{self.address}"
        else:
            port = self.address.rpartition(":")[2]
            command = [path, "-c", f"set PROBE_PORT {port}", "-f", "{device}", "-c", "gdb_port {port}"]
            command += ["-c", "tcl_port disabled", "-c", "telnet_port disabled", "-c", "gdb_memory_map disable"]
            device, serial = str(OPENOCD_FILE), ""
        lines = {"server": self.kind.value, "command": command, "device": device, "serial": serial}
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())

    def close(self) -> None:
        """End it. May be called again."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            wait_for_end(self._process, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
