"""Packets of GDB's remote protocol, as bytes and over a connection.

A packet is `$`, its content, `#`, and two hex digits: the content's sum, modulo 256. In the content, `}` makes the next
byte stand for itself with bit 5 turned over, and `*` and a byte repeat the byte before, as often as that byte is above
29. A notification starts with `%`; no one asked for it, and no one answers it. The GDB manual has them in its appendix
"Remote Serial Protocol".

The stream is TCP, which loses nothing: a packet is sent again when the other side asks for it, never after a time. So
an answer that comes late belongs to a question that was given up, and the stream cannot be used afterwards.
"""

from __future__ import annotations

import enum
import re
import select
import socket
from collections.abc import Callable
from itertools import pairwise
from typing import NoReturn

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.deadline import Deadline

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

    @property
    def holds_whole(self) -> bool:
        """Whether a packet has come to its end."""
        end = self._buffer.find(b"#", self._buffer.find(b"$")) if self.holds_packet else -1
        return 0 <= end <= len(self._buffer) - 3

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


@dataclass(frozen=True)
class MemoryPiece:
    """What one packet reads or writes.

    Attributes:
        address, size: of the bytes.
        command: the packet.
    """

    address: int
    size: int
    command: bytes


def reads(address: int, size: int, room: int) -> list[MemoryPiece]:
    """Return the packets that read memory, with answers of at most `room` bytes."""
    return [
        MemoryPiece(begin, length, b"m%x,%x" % (begin, length)) for begin, length in _pieces(address, size, room // 2)
    ]


def writes(address: int, data: bytes, room: int, binary: bool) -> list[MemoryPiece]:
    """Return the packets of at most `room` bytes that write memory, as binary or in hexadecimal digits."""
    room -= len(b"X%x,%x:" % (0xFFFFFFFF, room))
    packets = []
    for begin, length in _pieces(address, len(data), room if binary else room // 2):
        piece = data[begin - address : begin - address + length]
        if not binary:
            packets.append(MemoryPiece(begin, length, b"M%x,%x:%b" % (begin, length, piece.hex().encode())))
            continue
        # With many escapes it is twice as long.
        half = length if len(escape_binary(piece)) <= room else room // 2 // 4 * 4
        for start in range(0, length, half):
            part = piece[start : start + half]
            command = b"X%x,%x:%b" % (begin + start, len(part), escape_binary(part))
            packets.append(MemoryPiece(begin + start, len(part), command))
    return packets


def _pieces(address: int, size: int, most: int) -> list[tuple[int, int]]:
    """Return addresses and lengths of pieces of at most `most` bytes, which meet at multiples of four.

    A server writes one that starts and ends there as words, which is faster, and all that some memories can do.
    """
    step = most // 4 * 4
    borders = [address, *range(address - address % 4 + step, address + size, step), address + size]
    return [(begin, end - begin) for begin, end in pairwise(borders) if end > begin]


STOP = re.compile(rb"[TS][0-9a-fA-F]{2}")
"""The start of the packet that says why the processor stopped."""
END = re.compile(rb"[WX][0-9a-fA-F]{2}(?:;.*)?", re.DOTALL)
"""The packet that says that the program has ended."""


class StopKind(enum.Enum):
    """Why the processor stopped."""

    WATCH = "watch"
    SIGNAL = "signal"
    EXIT = "exit"


@dataclass(frozen=True)
class Stop:
    """The server says that the processor has stopped.

    Attributes:
        kind: what happened.
        value: base address of the watchpoint; exit status; or number of the signal: 2 for an interrupt, 5 for a
            breakpoint, 0 where it did not stop at all.
        text: the packet.
    """

    kind: StopKind
    value: int
    text: str = field(default="", compare=False)

    @classmethod
    def parse(cls, answer: bytes) -> Stop | None:
        """Return the stop that a packet tells of (`T`, `S`, `W` or `X`), or None where it is another packet."""
        text = text_of(answer)
        try:
            if END.match(answer):
                return cls(StopKind.EXIT, int(answer[1:3], 16), text)
            if not STOP.match(answer):
                return None
            for part in answer[3:].split(b";"):
                key, _, value = part.partition(b":")
                if key in (b"watch", b"rwatch", b"awatch"):
                    return cls(StopKind.WATCH, int(value, 16), text)
        except ValueError:
            return None
        return cls(StopKind.SIGNAL, int(answer[1:3], 16), text)


def text_of(answer: bytes) -> str:
    """Return an answer as text."""
    return answer.decode("ascii", "replace")


class Trouble(enum.Enum):
    """What is wrong with a server."""

    REFUSED = "it does not do what it is asked to do; everything else can be asked"
    BROKEN = "what it sends is not an answer, so nothing else can be asked"
    SILENT = "it does not answer, or does not take what it is sent, in time; nothing else can be asked"
    CLOSED = "the connection is lost"
    ENDED = "it says that there is no processor any more"


_RECEIVE_BYTES = 1 << 16
_TRIES = 4
"""How often a packet is sent, or asked for."""
_REST_SECONDS = 1.0
"""Within which the rest of a packet comes that no one asked for."""
_MOST_MILLISECONDS = (1 << 31) - 1
_MOST_OTHER_BYTES = 1 << 16
"""That are not an answer, for each question."""


class PacketStream:
    """A connection to a GDB server, packet by packet.

    Attributes:
        acknowledges: whether both sides acknowledge packets.
        broken: what is wrong with the connection, or None.
    """

    def __init__(self, stream: socket.socket, error: Callable[[Trouble, str], Exception]) -> None:
        """Take over a connected stream; `close` closes it.

        Args:
            stream: it.
            error: returns the error for what is wrong with the server, as a sentence about it.
        """
        self.acknowledges = True
        self.broken: str | None = None
        self._socket = stream
        self._error = error
        self._reader = PacketReader()
        self._unacknowledged = b""
        self._tries = 0
        self._other_bytes = 0
        stream.setblocking(False)
        self._readable = select.poll()
        self._readable.register(stream, select.POLLIN)

    @property
    def holds_packet(self) -> bool:
        """Whether a packet has started to come, so that waiting for the socket could block."""
        return self._reader.holds_packet

    def fileno(self) -> int:
        """Return the file descriptor, for selectors."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close it. The server notices."""
        self.broken = self.broken or "the connection is closed"
        self._socket.close()

    def fail(self, message: str, trouble: Trouble = Trouble.BROKEN) -> NoReturn:
        """Raise the error for what makes the connection useless, and leave it so."""
        self.broken = message
        raise self._error(trouble, message)

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
        """Send bytes that are not a packet, such as the one that interrupts. It fails where the connection is lost, or
        the server does not take them in time.
        """
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                watch = select.poll()
                watch.register(self._socket, select.POLLOUT)
                if not watch.poll(_milliseconds(deadline)):
                    self.fail(f"it does not take what it is sent within {deadline.seconds:.3g} s", Trouble.SILENT)
            except OSError as error:
                self.fail(f"the connection is lost: {error.strerror or error}", Trouble.CLOSED)

    def receive(self, deadline: Deadline, waiting_for: str) -> bytes:
        """Return the content of the next packet, without escapes and repetitions. Notifications are passed over.

        It fails where none comes in time or without damage, or the connection is lost.

        Args:
            deadline: until when.
            waiting_for: what, for the message.
        """
        asked = 0
        while True:
            packet = self._packet(deadline)
            if packet is None:
                self.fail(f"it does not answer {waiting_for} within {deadline.seconds:.3g} s", Trouble.SILENT)
            if packet.sound:
                break
            asked += 1
            if not self.acknowledges or asked == _TRIES:
                self.fail(f"its answer to {waiting_for} is damaged: the checksum is wrong")
            self.send_raw(b"-", deadline)
        if self.acknowledges:
            self.send_raw(b"+", deadline)
        try:
            return decode(packet.content)
        except PacketError as error:
            self.fail(f"its answer to {waiting_for} is damaged: {error}")

    def poll(self, deadline: Deadline, waiting_for: str, rest: float = _REST_SECONDS) -> bytes | None:
        """Return the content of a packet that has come, or comes until the deadline, or None. It fails as `receive`.

        Args:
            deadline: until when.
            waiting_for: what, for the message.
            rest: seconds in which the rest of a packet has to come; with 0, one that is not whole has not come.
        """
        while not self._reader.holds_packet or not (rest or self._reader.holds_whole):
            if self._next(deadline) is None and not self._read(deadline):
                return None
        return self.receive(Deadline(max(rest, deadline.remaining)), waiting_for)

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
        if not self._readable.poll(_milliseconds(deadline)):
            return False
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return True
        except OSError as error:
            self.fail(f"the connection is lost: {error.strerror or error}", Trouble.CLOSED)
        if not data:
            self.fail("it closed the connection", Trouble.CLOSED)
        self._reader.feed(data)
        return True


def _milliseconds(deadline: Deadline) -> float:
    """Return how long to poll at most, in the form and the bounds that poll(2) has."""
    return min(deadline.remaining * 1000, _MOST_MILLISECONDS)
