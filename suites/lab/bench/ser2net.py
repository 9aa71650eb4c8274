"""Real ser2net in front of a serial device: the device is reached by RFC 2217, with its speed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.process import dies_with, interrupts_deferred, wait_for_end

_PROGRAM_FOLDERS = f"{os.defpath}:/usr/local/sbin:/usr/sbin:/sbin"
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.02


def ser2net_program() -> str:
    """Return ser2net's path.

    Raises:
        TargetNotAvailable: it is not installed.
    """
    path = shutil.which("ser2net") or shutil.which("ser2net", path=_PROGRAM_FOLDERS)
    if path is None:
        raise TargetNotAvailable("ser2net is not installed", hint="install it: apt-get install ser2net")
    return path


class Ser2net:
    """A running ser2net with one device. A context manager: leaving it ends its process.

    Attributes:
        url: of the device, for pyserial.
    """

    def __init__(self, device: str, folder: Path) -> None:
        """Start it.

        Args:
            device: the serial device.
            folder: for its configuration.

        Raises:
            TargetNotAvailable: it is not installed, or does not listen in time.
        """
        program = ser2net_program()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        settings = folder / f"ser2net-{port}.yaml"
        settings.write_text(
            "connection: &bench\n"
            f"  accepter: telnet(rfc2217),tcp,127.0.0.1,{port}\n"
            f"  connector: serialdev,{device},115200n81,local\n"
            "  options:\n    kickolduser: true\n"
        )
        self.url = f"rfc2217://127.0.0.1:{port}?ign_set_control"
        with interrupts_deferred():
            self._process = subprocess.Popen(
                [program, "-n", "-c", str(settings)],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=dies_with(os.getpid()),
            )
        deadline = Deadline(_START_SECONDS)
        while not _listens(port):
            if self._process.poll() is not None or deadline.passed:
                self.close()
                raise TargetNotAvailable(f"ser2net does not listen, status {self._process.poll()}")
            time.sleep(_POLL_SECONDS)

    def __enter__(self) -> Ser2net:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it. May be called again."""
        self._process.terminate()
        try:
            wait_for_end(self._process, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _listens(port: int) -> bool:
    """Return whether a port of this machine takes connections. One that was tried opens no device: it is closed again
    before the negotiation."""
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0
