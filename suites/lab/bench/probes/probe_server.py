"""A simulated probe's port, to which one debugger at a time connects."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import TracebackType

from ethos_hil.suites.lab.bench.probes.debug_bus import DebugBus
from ethos_hil.suites.lab.bench.probes.debug_port import DebugPort
from ethos_hil.suites.lab.bench.probes.front_end import FrontEnd
from ethos_hil.suites.lab.bench.probes.probed_board import ProbedBoard
from ethos_hil.suites.lab.bench.probes.remote_bitbang import RemoteBitbang
from ethos_hil.suites.lab.bench.probes.remote_probe import RemoteProbe

_RECEIVE_BYTES = 1 << 16


class ProbeKind(StrEnum):
    """Whose program talks to the probe."""

    PYOCD = "pyocd"
    OPENOCD = "openocd"


FRONT_ENDS: Mapping[ProbeKind, Callable[[DebugPort], FrontEnd]] = {
    ProbeKind.PYOCD: RemoteProbe,
    ProbeKind.OPENOCD: RemoteBitbang,
}


class ProbeServer:
    """A probe that is connected to a board. A context manager.

    Attributes:
        address: "host:port" for the debugger.
    """

    def __init__(self, kind: ProbeKind, host: str, port: int) -> None:
        """Open a port on loopback.

        Args:
            kind: whose protocol it speaks.
            host, port: of the board's gdb port.

        Raises OSError.
        """
        self._front_end = FRONT_ENDS[kind]
        self._board = ProbedBoard(host, port)
        self._port = DebugPort(DebugBus(self._board))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._client: socket.socket | None = None
        self._ending = False
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> ProbeServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.close()
        self._board.release()

    def serve(self, until: Sequence[int]) -> None:
        """Be the probe until one of these file descriptors is readable."""
        # Nothing but the debugger's next byte is waited for in that thread: OpenOCD waits for an answer to each word.
        serving = threading.Thread(target=self._serve_all, name="probe", daemon=True)
        serving.start()
        select.select(until, [], [])
        self._ending = True
        for sock in (self._listener, self._client):
            if sock is not None:
                with contextlib.suppress(OSError):  # it has gone already
                    sock.shutdown(socket.SHUT_RDWR)
        serving.join()

    def _serve_all(self) -> None:
        while not self._ending:
            with contextlib.suppress(OSError):  # a debugger may go at any time, and so may this probe
                self._client, _ = self._listener.accept()
                with self._client as client:
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._serve(client, self._front_end(self._port))
            self._port.leave()

    def _serve(self, client: socket.socket, front_end: FrontEnd) -> None:
        while not front_end.ended and not self._ending and (data := client.recv(_RECEIVE_BYTES)):
            answer = front_end.feed(data)
            if answer:
                client.sendall(answer)
