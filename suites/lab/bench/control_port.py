"""The socket with the board's switches: power, the reset button, and the bench's own: faults and counters.

A line each way. `power.sh` is the client for a board file's power commands.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

_SECONDS = 5.0
_LONGEST = 4096


class ControlPort:
    """A listening socket and its clients.

    Attributes:
        address: "host:port".
    """

    def __init__(self, execute: Callable[[str], str]) -> None:
        """Open a free port on loopback.

        Args:
            execute: carries out a line, and returns the answer's.

        Raises OSError.
        """
        self._execute = execute
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._clients: dict[socket.socket, bytes] = {}

    def sources(self) -> list[socket.socket]:
        """Return the sockets to wait for."""
        return [self._listener, *self._clients]

    def ready(self, source: socket.socket) -> None:
        """Handle a socket that is readable."""
        if source is self._listener:
            client, _ = self._listener.accept()
            client.settimeout(_SECONDS)
            self._clients[client] = b""
            return
        try:
            data = source.recv(_LONGEST)
        except OSError:
            data = b""
        *lines, rest = (self._clients[source] + data).split(b"\n")
        for line in lines:
            answer = self._execute(line.decode("utf-8", "replace").strip())
            with contextlib.suppress(OSError):
                source.sendall(answer.encode() + b"\n")
        self._clients[source] = rest
        if not data or len(rest) > _LONGEST:
            source.close()
            del self._clients[source]

    def close(self) -> None:
        """Close all sockets."""
        for sock in (self._listener, *self._clients):
            sock.close()
        self._clients.clear()
