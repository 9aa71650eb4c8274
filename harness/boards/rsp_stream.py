"""Sends and receives packets of GDB's remote protocol, with acknowledgements until both sides do without.

The stream is TCP, which loses nothing: a packet is sent again when the other side asks for it, never after a time. So
an answer that comes late belongs to a question that was given up, and the stream cannot be used afterwards.
"""

from __future__ import annotations

import select
import socket
from typing import NoReturn

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.rsp_packets import (
    PacketError,
    PacketReader,
    RspAcknowledgement,
    RspPacket,
    encoded,
)

_RECEIVE_BYTES = 1 << 16
_TRIES = 4
"""How often a packet is sent, or asked for."""
_REST_SECONDS = 1.0
"""Within which the rest of a packet comes that nobody asked for."""
_MOST_OTHER_BYTES = 1 << 16
"""That are no answer, for each question."""


class PacketStream:
    """A connection to a GDB server, packet by packet.

    Attributes:
        server: what messages call the server.
        acknowledges: whether both sides acknowledge packets.
        broken: what is wrong with the connection, or None.
    """

    def __init__(self, stream: socket.socket, server: str) -> None:
        """Take over a connected stream; `close` closes it."""
        self.server = server
        self.acknowledges = True
        self.broken: str | None = None
        self._socket = stream
        self._reader = PacketReader()
        self._unacknowledged = b""
        self._tries = 0
        self._other_bytes = 0
        stream.setblocking(False)

    def close(self) -> None:
        """Close it. The server notices."""
        self.broken = self.broken or "the connection is closed"
        self._socket.close()

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise the error for what makes the connection useless, and leave it so.

        Raises:
            TargetError: of the kind `PROBE`.
        """
        self.broken = message
        raise TargetError(
            f"{self.server}: {message}",
            kind=FailureKind.PROBE,
            hint=hint
            or "is the probe connected, and the board on? Then start the GDB server again, and read what it says",
        )

    def begin_question(self) -> None:
        """Count anew what is no answer."""
        self._other_bytes = 0

    def send(self, content: bytes, deadline: Deadline) -> None:
        """Send a packet. `send_raw` has the errors."""
        packet = encoded(content)
        self._unacknowledged = packet if self.acknowledges else b""
        self._tries = 1
        self.send_raw(packet, deadline)

    def send_raw(self, data: bytes, deadline: Deadline) -> None:
        """Send bytes that are no packet, such as the one that interrupts.

        Raises:
            TargetError: the connection is lost, or the server does not take them in time.
        """
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                if not self._wait(deadline, select.POLLOUT):
                    self.fail(f"it does not take what it is sent within {deadline.seconds:.3g} s")
            except OSError as error:
                self.fail(f"the connection is lost: {error.strerror or error}")

    def receive(self, deadline: Deadline, waiting_for: str) -> bytes:
        """Return the content of the next packet, without escapes and repetitions. Notifications are passed over.

        Args:
            deadline: until when.
            waiting_for: what, for the message.

        Raises:
            TargetError: it does not come in time, not without damage, or the connection is lost.
        """
        asked = 0
        while True:
            packet = self._packet(deadline)
            if packet is None:
                self.fail(f"it does not answer {waiting_for} within {deadline.seconds:.3g} s")
            if packet.sound:
                break
            asked += 1
            if not self.acknowledges or asked == _TRIES:
                self.fail(f"its answer to {waiting_for} is damaged: the checksum is wrong")
            self.send_raw(b"-", deadline)
        if self.acknowledges:
            self.send_raw(b"+", deadline)
        try:
            return packet.decoded()
        except PacketError as error:
            self.fail(f"its answer to {waiting_for} is damaged: {error}")

    def poll(self, deadline: Deadline, waiting_for: str) -> bytes | None:
        """Return the content of a packet that has come, or comes until the deadline, or None. `receive` has the errors.

        A packet of which only the begin has come is waited for.
        """
        while not self._reader.holds_packet:
            if self._next(deadline) is None and not self._read(deadline):
                return None
        return self.receive(Deadline(max(_REST_SECONDS, deadline.remaining)), waiting_for)

    def _packet(self, deadline: Deadline) -> RspPacket | None:
        """Return the next packet that is no notification, or None where the deadline passes."""
        while True:
            found = self._next(deadline)
            if isinstance(found, RspPacket) and not found.notification:
                return found
            if found is None and not self._read(deadline):
                return None

    def _next(self, deadline: Deadline) -> RspPacket | RspAcknowledgement | None:
        """Return what came next, or None. Acknowledgements are dealt with, and what is no answer is counted."""
        try:
            found = self._reader.next()
        except PacketError as error:
            self.fail(f"what it sends is damaged: {error}")
        self._other_bytes += self._reader.passed_over
        self._reader.passed_over = 0
        if isinstance(found, RspAcknowledgement):
            self._other_bytes += 1
            self._acknowledged(found.good, deadline)
        elif found is not None and found.notification:
            self._other_bytes += len(found.content)
        if self._other_bytes > _MOST_OTHER_BYTES:
            self.fail(f"it sent {self._other_bytes:,} bytes that are no answer")
        return found

    def _acknowledged(self, good: bool, deadline: Deadline) -> None:
        if good or not self._unacknowledged:
            return
        if self._tries == _TRIES:
            self.fail(f"it refused a packet {_TRIES} times: what it gets is damaged")
        self._tries += 1
        self.send_raw(self._unacknowledged, deadline)

    def _read(self, deadline: Deadline) -> bool:
        """Wait for bytes. Return whether some came."""
        if not self._wait(deadline, select.POLLIN):
            return False
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return True
        except OSError as error:
            self.fail(f"the connection is lost: {error.strerror or error}")
        if not data:
            self.fail("it closed the connection")
        self._reader.feed(data)
        return True

    def _wait(self, deadline: Deadline, event: int) -> bool:
        """Wait until the socket can be read or written. Return whether it can."""
        watch = select.poll()
        watch.register(self._socket, event)
        return bool(watch.poll(deadline.remaining * 1000))
