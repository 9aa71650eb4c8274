"""Packets of GDB's remote protocol, as bytes. The GDB manual has them in its appendix "Remote Serial Protocol".

A packet is `$`, its content, `#`, and two hex digits: the content's sum, modulo 256. In the content, `}` makes the next
byte stand for itself with bit 5 turned over, and `*` and a byte repeat the byte before, as often as that byte is above
29. A notification begins with `%`; nobody asked for it, and nobody answers it.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_BYTES = 1 << 18
"""Of one packet: eight times what we ask for at most. A server may send without end, and memory is not without end."""

_ESCAPE, _REPEAT = 0x7D, 0x2A
_TURNED = 0x20
_FEWEST_REPEATS = 29
_TO_ESCAPE = frozenset(b"#$}*")


class PacketError(Exception):
    """What came is no packet. The message says what is wrong with it."""


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

    def decoded(self) -> bytes:
        """Return its content without escapes and repetitions.

        Raises:
            PacketError: one of them has no end, repeats nothing, or makes too much of it.
        """
        return decoded(self.content)


@dataclass(frozen=True)
class RspAcknowledgement:
    """The other side has the packet, or asks for it again.

    Attributes:
        good: whether it has it.
    """

    good: bool


def encoded(content: bytes) -> bytes:
    """Return `content` as a packet. What is binary in it has to be escaped."""
    return b"$" + content + b"#%02x" % (sum(content) & 0xFF)


def escaped_binary(data: bytes) -> bytes:
    """Return `data` with escapes for what means something in a packet."""
    if not _TO_ESCAPE.intersection(data):
        return data
    return b"".join(bytes((_ESCAPE, byte ^ _TURNED)) if byte in _TO_ESCAPE else bytes((byte,)) for byte in data)


def decoded(content: bytes) -> bytes:
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
        """Whether a packet has begun to come."""
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
        # A `$` within a packet is escaped, so the last one begins this packet, and what is before it was cut off.
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
