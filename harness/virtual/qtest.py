"""A client of QEMU's qtest protocol: it drives interrupt lines and fills the memory of a stopped machine.

The protocol is in QEMU's docs/devel/qtest.rst and softmmu/qtest.c: one line each way, answers start with OK or FAIL.
"""

from __future__ import annotations

import base64
import select
import socket

from ethos_hil.base.deadline import Deadline

_MIN_TIMEOUT = 1e-3
"""Seconds; 0 would make the socket non-blocking."""


class QtestError(Exception):
    """QEMU refused a command, or has ended."""


class Qtest:
    """A connection over a connected stream socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._socket = stream
        self._buffer = b""

    def set_irq_in(self, device: str, name: str, number: int, level: bool, deadline: Deadline) -> None:
        """Set input `number` of the GPIO array `name` of the device at QOM path `device`.

        Raises:
            QtestError: there is no such input, or QEMU has ended.
            TimeoutError: no answer before the deadline.
        """
        self._command(f"set_irq_in {device} {name} {number} {int(level)}", deadline)

    def fill(self, address: int, size: int, deadline: Deadline) -> None:
        """Set `size` bytes at the physical `address` to zero. Raises as `set_irq_in`."""
        self._command(f"memset 0x{address:x} 0x{size:x} 0x0", deadline)

    def write(self, address: int, data: bytes, deadline: Deadline) -> None:
        """Write `data` to the physical `address` through QEMU, which then discards its translation of the old code.

        Writes outside of RAM have no effect. Raises as `set_irq_in`.
        """
        if data:  # the protocol refuses a write of nothing
            encoded = base64.b64encode(data).decode("ascii")
            self._command(f"b64write 0x{address:x} 0x{len(data):x} {encoded}", deadline)

    def _command(self, text: str, deadline: Deadline) -> None:
        try:
            self._socket.settimeout(deadline.remaining or _MIN_TIMEOUT)
            self._socket.sendall(text.encode() + b"\n")
            while b"\n" not in self._buffer:
                if not select.select([self._socket], [], [], deadline.remaining)[0]:
                    raise TimeoutError("QEMU's qtest socket does not answer")
                data = self._socket.recv(4096)
                if not data:
                    raise QtestError("QEMU closed its qtest socket")
                self._buffer += data
        except (BrokenPipeError, ConnectionError) as error:
            raise QtestError(f"the connection to QEMU's qtest socket broke: {error}") from error
        line, _, self._buffer = self._buffer.partition(b"\n")
        if not line.startswith(b"OK"):
            raise QtestError(f"QEMU answered {line.decode(errors='replace')!r} to {text[:80]!r}")
