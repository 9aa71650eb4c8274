"""QEMU's mps3-an547 behind nothing but its gdb server and a serial line: a board, as far as a loader can see."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

from ethos_hil.base.testing.processes import processes_with
from ethos_hil.harness.boards.board import Loading, ResetWords, Server
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.image.formats import FrameType
from ethos_hil.harness.link.frames import Frame, FrameDecoder
from ethos_hil.harness.virtual.qemu import find_qemu

RESET = ResetWords(ServerDialect.QEMU.words.reset_and_halt)
VECTORS = 0x10000000
_WORKER = ("PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER")
"""Variables of a worker of pytest-xdist, which its processes inherit."""


def qemu_loading(folder: Path) -> Loading:
    """Return how QEMU is started as a server. Its UART goes to the file "uart" in `folder`, its QMP to "qmp"."""
    machine = ("-M", "mps3-an547", "-S", "-gdb", "tcp:127.0.0.1:{port}", "-display", "none", "-monitor", "none")
    lines = ("-serial", f"file:{folder / 'uart'}", "-qmp", f"unix:{folder / 'qmp'},server=on,wait=off")
    return Loading(Server.OPENOCD, ServerDialect.QEMU, command=(find_qemu(), *machine, *lines), timeout=20.0)


def frames(folder: Path, until: FrameType = FrameType.END, seconds: float = 20.0) -> list[Frame]:
    """Return the frames that the firmware sent, until one of the type `until`."""
    end = time.monotonic() + seconds
    while True:
        result = [frame for frame in FrameDecoder().feed((folder / "uart").read_bytes()) if isinstance(frame, Frame)]
        if any(frame.type is until for frame in result):
            return result
        assert time.monotonic() < end, result
        time.sleep(0.02)


def qmp(folder: Path, command: str) -> None:
    """Have QEMU carry out a command, as somebody else at the board would."""
    with socket.socket(socket.AF_UNIX) as stream, stream.makefile("rw") as file:
        stream.connect(str(folder / "qmp"))
        file.readline()
        for name in ("qmp_capabilities", command):
            file.write(json.dumps({"execute": name}) + "\n")
            file.flush()
            while "return" not in json.loads(file.readline()):
                pass


def marked(variable: str) -> list[int]:
    """Return the processes that a server started, without those of other workers of this session."""
    own = [f"{name}={os.environ[name]}\0".encode() for name in _WORKER if name in os.environ]
    return sorted(processes_with(f"{variable}=".encode(), *own, file="environ"))
