"""Packets of GDB's remote protocol, as bytes and over a connection.

A packet is `$`, its content, `#`, and two hex digits: the content's sum, modulo 256. In the content, `}` makes the next
byte stand for itself with bit 5 turned over, and `*` and a byte repeat the byte before, as often as that byte is above
29. A notification starts with `%`; no one asked for it, and no one answers it. The GDB manual has them in its appendix
"Remote Serial Protocol".

The stream is TCP, which loses nothing: a packet is sent again when the other side asks for it, never after a time. So
an answer that comes late belongs to a question that was given up, and the stream cannot be used afterwards.
"""

from __future__ import annotations

import select
import socket
from dataclasses import dataclass
from typing import NoReturn

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind

MOST_BYTES = 1 << 18
"""Of one packet: eight times what we ask for at most. A server may send without end, and memory is not without end."""

_ESCAPE, _REPEAT = 0x7D, 0x2A
_TURNED = 0x20
_FEWEST_REPEATS = 29
_TO_ESCAPE = frozenset(b"#$}*")


class PacketError(Exception):
    """What came is not a packet. The message says what is wrong with it."""


@dataclass(frozen=True)
class RspPacket:
    """A packet that came.

    Attributes:
        content: it, as it was sent.
        sound: whether the checksum is the content's.
        notification: whether it is one.
    """

    content: bytes
    sound: bool
    notification: bool = False

    def decode(self) -> bytes:
        """Return its content without escapes and repetitions.

        Raises:
            PacketError: one of them has no end, repeats nothing, or makes too much of it.
        """
        return decode(self.content)


@dataclass(frozen=True)
class RspAcknowledgement:
    """The other side has the packet, or asks for it again.

    Attributes:
        good: whether it has it.
    """

    good: bool


def encode(content: bytes) -> bytes:
    """Return `content` as a packet. What is binary in it has to be escaped."""
    return b"$" + content + b"#%02x" % (sum(content) & 0xFF)


def escape_binary(data: bytes) -> bytes:
    """Return `data` with escapes for what means something in a packet."""
    if not _TO_ESCAPE.intersection(data):
        return data
    return b"".join(bytes((_ESCAPE, byte ^ _TURNED)) if byte in _TO_ESCAPE else bytes((byte,)) for byte in data)


def decode(content: bytes) -> bytes:
    """Return what the content of a packet stands for.

    Raises:
        PacketError: an escape or a repetition has no end, repeats nothing, or makes too much of it.
    """
    if _ESCAPE not in content and _REPEAT not in content:
        return content
    out = bytearray()
    bytes_left = iter(content)
    for byte in bytes_left:
        if byte == _ESCAPE:
            following = next(bytes_left, None)
            if following is None:
                raise PacketError("a packet ends within an escape")
            out.append(following ^ _TURNED)
        elif byte == _REPEAT:
            count = next(bytes_left, _FEWEST_REPEATS) - _FEWEST_REPEATS
            if count < 1 or not out:
                raise PacketError("a packet repeats nothing")
            out += out[-1:] * count
        else:
            out.append(byte)
        if len(out) > MOST_BYTES:
            raise PacketError(f"a packet stands for more than {MOST_BYTES:,} bytes")
    return bytes(out)


class PacketReader:
    """Finds packets and acknowledgements in what comes, in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._seen = 0
        self.passed_over = 0
        """Bytes outside of packets, so far."""

    @property
    def holds_packet(self) -> bool:
        """Whether a packet has started to come."""
        return b"$" in self._buffer

    def feed(self, data: bytes) -> None:
        """Add what came."""
        self._buffer += data

    def next(self) -> RspPacket | RspAcknowledgement | None:
        """Return what came next, or None where it is not whole yet.

        Raises:
            PacketError: there is too much without the end of a packet.
        """
        buffer = self._buffer
        while buffer:
            if buffer[0] in b"+-":
                good = buffer[0] == ord("+")
                del buffer[:1]
                return RspAcknowledgement(good)
            if buffer[0] in b"$%":
                return self._packet()
            begin = next((index for index, byte in enumerate(buffer) if byte in b"+-$%"), len(buffer))
            del buffer[:begin]
            self.passed_over += begin
        return None

    def _packet(self) -> RspPacket | None:
        buffer = self._buffer
        end = buffer.find(b"#", max(1, self._seen))
        # A `$` within a packet is escaped, so the last one starts this packet, and what is before it was cut off.
        again = buffer.rfind(b"$", max(1, self._seen), end if end >= 0 else len(buffer))
        if again > 0:
            del buffer[:again]
            self.passed_over += again
            self._seen = 0
            end -= again if end >= 0 else 0
        if end < 0 or len(buffer) < end + 3:
            if len(buffer) > MOST_BYTES:
                raise PacketError(f"{len(buffer):,} bytes came without the end of a packet")
            self._seen = len(buffer) if end < 0 else end
            return None
        content, checksum = bytes(buffer[1:end]), bytes(buffer[end + 1 : end + 3])
        notification = buffer[0] == ord("%")
        del buffer[: end + 3]
        self._seen = 0
        return RspPacket(content, checksum.lower() == b"%02x" % (sum(content) & 0xFF), notification)


_RECEIVE_BYTES = 1 << 16
_TRIES = 4
"""How often a packet is sent, or asked for."""
_REST_SECONDS = 1.0
"""Within which the rest of a packet comes that no one asked for."""
_MOST_OTHER_BYTES = 1 << 16
"""That are not an answer, for each question."""


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
        """Count again what is not an answer."""
        self._other_bytes = 0

    def send(self, content: bytes, deadline: Deadline) -> None:
        """Send a packet. `send_raw` has the errors."""
        packet = encode(content)
        self._unacknowledged = packet if self.acknowledges else b""
        self._tries = 1
        self.send_raw(packet, deadline)

    def send_raw(self, data: bytes, deadline: Deadline) -> None:
        """Send bytes that are not a packet, such as the one that interrupts.

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
            return packet.decode()
        except PacketError as error:
            self.fail(f"its answer to {waiting_for} is damaged: {error}")

    def poll(self, deadline: Deadline, waiting_for: str) -> bytes | None:
        """Return the content of a packet that has come, or comes until the deadline, or None. `receive` has the errors.

        A packet of which only the start has come is waited for.
        """
        while not self._reader.holds_packet:
            if self._next(deadline) is None and not self._read(deadline):
                return None
        return self.receive(Deadline(max(_REST_SECONDS, deadline.remaining)), waiting_for)

    def _packet(self, deadline: Deadline) -> RspPacket | None:
        """Return the next packet that is not a notification, or None where the deadline passes."""
        while True:
            packet = self._next(deadline)
            if isinstance(packet, RspPacket) and not packet.notification:
                return packet
            if packet is None and not self._read(deadline):
                return None

    def _next(self, deadline: Deadline) -> RspPacket | RspAcknowledgement | None:
        """Return what came next, or None. Acknowledgements are dealt with, and what is not an answer is counted."""
        try:
            packet = self._reader.next()
        except PacketError as error:
            self.fail(f"what it sends is damaged: {error}")
        self._other_bytes += self._reader.passed_over
        self._reader.passed_over = 0
        if isinstance(packet, RspAcknowledgement):
            self._other_bytes += 1
            self._acknowledge(packet.good, deadline)
        elif packet is not None and packet.notification:
            self._other_bytes += len(packet.content)
        if self._other_bytes > _MOST_OTHER_BYTES:
            self.fail(f"it sent {self._other_bytes:,} bytes that are not an answer")
        return packet

    def _acknowledge(self, good: bool, deadline: Deadline) -> None:
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
