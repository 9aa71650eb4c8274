"""A client of QEMU's machine protocol (QMP), used to reset the whole machine.

The protocol is in QEMU's docs/interop/qmp-spec.txt: one JSON object a line. QEMU sends a greeting, answers each command
with `return` or `error`, and sends events in between, in the order in which they happen.
"""

from __future__ import annotations

import json
import select
import socket
from collections import deque
from typing import Any

from ethos_hil.base.deadline import Deadline

_ACCESS_EVENTS = (b'"event": "STOP"', b'"event": "RESUME"')
"""The events that QEMU sends for every access to an intercepted register; they are ignored."""


class QmpError(Exception):
    """QEMU refused a command, broke the protocol, or has ended."""


class Qmp:
    """A connection over a connected stream socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._socket = stream
        self._partial = b""
        self._lines: deque[bytes] = deque()
        self._ready = False
        self._resets = 0

    def reset(self, deadline: Deadline) -> None:
        """Reset the processor and all devices of a stopped machine. It stays stopped, and its RAM is unchanged.

        QEMU is started so that a guest's own reset stops it and is noticed; for this reset that is switched off.

        Raises:
            QmpError: QEMU refused, or has ended.
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
            raise QmpError(f"QEMU's machine protocol begins with {greeting!r}")
        self._command("qmp_capabilities", {}, deadline)
        self._ready = True

    def _command(self, name: str, arguments: dict[str, object], deadline: Deadline) -> Any:
        try:
            self._socket.sendall(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        except OSError as error:
            raise QmpError(f"the connection to QEMU's machine protocol broke: {error}") from error
        while "return" not in (answer := self._receive(deadline)):
            if "error" in answer:
                raise QmpError(f"QEMU answered {answer['error']!r} to {name}")
        return answer["return"]

    def _receive(self, deadline: Deadline) -> dict[str, Any]:
        while not self._lines:
            if not select.select([self._socket], [], [], deadline.remaining)[0]:
                raise TimeoutError("QEMU's machine protocol does not answer")
            try:
                data = self._socket.recv(1 << 16)
            except OSError as error:
                raise QmpError(f"the connection to QEMU's machine protocol broke: {error}") from error
            if not data:
                raise QmpError("QEMU closed the connection to its machine protocol")
            *lines, self._partial = (self._partial + data).split(b"\n")
            self._lines.extend(line for line in lines if not any(event in line for event in _ACCESS_EVENTS))
        line = self._lines.popleft()
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise QmpError(f"QEMU's machine protocol sent {line[:80]!r}")
        self._resets += message.get("event") == "RESET"
        return message
