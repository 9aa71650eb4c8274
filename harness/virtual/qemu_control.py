"""Clients of QEMU's protocols for control, and the connection that they share with the client of its gdbstub.

Qtest drives interrupt lines and fills the memory of a stopped machine: one line each way, and answers start with OK or
FAIL (QEMU's docs/devel/qtest.rst and softmmu/qtest.c).

QMP, the machine protocol, resets the whole machine: one JSON object a line. QEMU sends a greeting, answers each command
with `return` or `error`, and sends events in between, in the order in which they happen (docs/interop/qmp-spec.txt).
"""

from __future__ import annotations

import base64
import json
import select
import socket
from collections import deque
from typing import Any

from ethos_hil.base.deadline import Deadline

_READ_BYTES = 1 << 16
_MIN_TIMEOUT = 1e-3
"""Seconds; 0 would make the socket non-blocking."""
_ACCESS_EVENTS = (b'"event": "STOP"', b'"event": "RESUME"')
"""The events that QEMU sends for every access to an intercepted register; they are ignored."""


class QemuError(Exception):
    """QEMU refused a command, sent what its protocol does not allow, or has ended."""


class QemuClosed(QemuError):
    """The connection is closed: QEMU has ended."""


class QemuSocket:
    """A connected stream socket to QEMU.

    Attributes:
        name: what messages call the other end.
    """

    def __init__(self, stream: socket.socket, name: str) -> None:
        self.name = name
        self._socket = stream
        stream.setblocking(False)

    def fileno(self) -> int:
        """Return the file descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, data: bytes, deadline: Deadline | None = None) -> None:
        """Send bytes; without a deadline no more than the socket's buffer takes at once.

        Raises:
            QemuClosed: QEMU has ended.
            TimeoutError: QEMU did not take them before the deadline.
        """
        try:
            if deadline is not None:
                self._socket.settimeout(deadline.remaining or _MIN_TIMEOUT)
            self._socket.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._broken(error) from error

    def receive(self, deadline: Deadline) -> bytes:
        """Return the bytes that come next.

        Raises:
            QemuClosed: QEMU has ended.
            TimeoutError: nothing came before the deadline.
        """
        if not select.select([self._socket], [], [], deadline.remaining)[0]:
            raise TimeoutError(f"{self.name} does not answer")
        try:
            data = self._socket.recv(_READ_BYTES)
        except OSError as error:
            raise self._broken(error) from error
        if not data:
            raise QemuClosed(f"QEMU closed the connection to {self.name}")
        return data

    def _broken(self, error: OSError) -> QemuClosed:
        return QemuClosed(f"the connection to {self.name} broke: {error}")


class Qtest:
    """A connection over a connected stream socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._socket = QemuSocket(stream, "QEMU's qtest socket")
        self._buffer = b""

    def set_irq_in(self, device: str, name: str, number: int, level: bool, deadline: Deadline) -> None:
        """Set input `number` of the GPIO array `name` of the device at QOM path `device`.

        Raises:
            QemuError: there is no such input, or QEMU has ended.
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
        self._socket.send(text.encode() + b"\n", deadline)
        while b"\n" not in self._buffer:
            self._buffer += self._socket.receive(deadline)
        line, _, self._buffer = self._buffer.partition(b"\n")
        if not line.startswith(b"OK"):
            raise QemuError(f"QEMU answered {line.decode(errors='replace')!r} to {text[:80]!r}")


class Qmp:
    """A connection over a connected stream socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._socket = QemuSocket(stream, "QEMU's machine protocol")
        self._partial = b""
        self._lines: deque[bytes] = deque()
        self._ready = False
        self._resets = 0

    def reset(self, deadline: Deadline) -> None:
        """Reset the processor and all devices of a stopped machine. It stays stopped, and its RAM is unchanged.

        QEMU is started so that a guest's own reset stops it and is noticed; for this reset that is switched off.

        Raises:
            QemuError: QEMU refused, or has ended.
            TimeoutError: the deadline passed first.
        """
        self.command("set-action", deadline, reboot="reset")
        before = self._resets
        self.command("system_reset", deadline)
        while self._resets == before:  # the answer may come before the reset is done, the event only after it
            self._receive(deadline)
        self.command("set-action", deadline, reboot="shutdown")

    def command(self, name: str, deadline: Deadline, **arguments: object) -> Any:
        """Execute a QMP command and return QEMU's answer. Raises as `reset`."""
        if not self._ready:
            self._handshake(deadline)
        return self._command(name, arguments, deadline)

    def _handshake(self, deadline: Deadline) -> None:
        """Leave the mode in which QEMU takes no command and sends no events. Not called before the first command."""
        greeting = self._receive(deadline)
        if "QMP" not in greeting:
            raise QemuError(f"QEMU's machine protocol starts with {greeting!r}")
        self._command("qmp_capabilities", {}, deadline)
        self._ready = True

    def _command(self, name: str, arguments: dict[str, object], deadline: Deadline) -> Any:
        self._socket.send(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        while "return" not in (answer := self._receive(deadline)):
            if "error" in answer:
                raise QemuError(f"QEMU answered {answer['error']!r} to {name}")
        return answer["return"]

    def _receive(self, deadline: Deadline) -> dict[str, Any]:
        while not self._lines:
            *lines, self._partial = (self._partial + self._socket.receive(deadline)).split(b"\n")
            self._lines.extend(line for line in lines if not any(event in line for event in _ACCESS_EVENTS))
        line = self._lines.popleft()
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise QemuError(f"QEMU's machine protocol sent {line[:80]!r}")
        self._resets += message.get("event") == "RESET"
        return message
