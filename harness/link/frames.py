"""Frames on the wire: COBS or base64, CRC-32, sequence numbers (docs/formats.md, "Wire").

Some bytes a UART, or what reads it, may take for a command. EOT ends the simulation where an FVP's `shutdown_on_eot` is
set; it is off by default (ARM-software/AVH quotes the list of an FVP). DC4 means something to Arm's PL011 model while
`enable_dc4` is set; no public source describes its effect. Whether the UART of an MPS3 or MPS4 knows DC4 is not known.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator

from cobs import cobs

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import LinkError
from ethos_hil.harness.image.formats import MAX_FRAME_PAYLOAD, PRINTABLE_MARK, FrameHeader, FrameType

EOT = 0x04

_CRC_BYTES = 4
MAX_TEXT = 64 * 1024
"""Bytes kept while no zero byte ends them; a frame is far shorter."""
_MAX_CONTENT = FrameHeader.size + MAX_FRAME_PAYLOAD + _CRC_BYTES
_MAX_ENCODED = 1 + -(-_MAX_CONTENT // 3) * 4
"""Bytes of the longest frame without its delimiter: in base64, with its mark. COBS adds less: a byte for every 254."""
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\a\x1b")


@dataclass(frozen=True)
class Frame:
    """A complete frame. Its `sequence` follows its predecessor's."""

    type: FrameType
    sequence: int
    payload: bytes


@dataclass(frozen=True)
class Text:
    """Readable bytes between zero bytes that are not a frame, e.g. from a boot loader or a C library's last message."""

    lines: tuple[str, ...]


class FrameDecoder:
    """Turns bytes, in pieces of any size, into frames and text.

    Every method raises TargetError, kind "link", for bytes that are neither; that ends the run.
    """

    def __init__(self, *, printable: bool = False) -> None:
        """Start at the first byte of a link, which carries frames as lines of text if it is `printable`."""
        self._delimiter = b"\n" if printable else b"\0"
        self._unwrap = _unwrap_line if printable else _unwrap
        self._buffer = b""
        self._next_sequence = 0

    @property
    def frames(self) -> int:
        """Frames decoded so far."""
        return self._next_sequence

    @property
    def unfinished(self) -> int:
        """Bytes since the last delimiter."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame | Text]:
        """Yield the frames and text that `data` completes, in order. Iterate to the end before feeding more."""
        *chunks, self._buffer = (self._buffer + data).split(self._delimiter)
        for chunk in chunks:
            if chunk:
                yield from self._chunk(chunk)
        if len(self._buffer) > MAX_TEXT:
            end = _end_of_text(self._buffer)
            text, self._buffer = self._buffer[:end], self._buffer[end:]
            yield _text(text, self._next_sequence)

    def close(self) -> Iterator[Text]:
        """Yield the rest, which must be text, after the stream has ended."""
        rest, self._buffer = self._buffer, b""
        if rest:
            yield _text(rest, self._next_sequence)

    def _chunk(self, chunk: bytes) -> Iterator[Frame | Text]:
        content = self._unwrap(chunk)
        if content is None:
            # Other software may have written text directly in front of a frame. Only so near to the end can it start.
            first = max(0, len(chunk) - _MAX_ENCODED - 1)
            for start in (i + 1 for i in range(first, len(chunk)) if chunk[i] == 0x0A):
                content = self._unwrap(chunk[start:])
                if content is not None:
                    yield _text(chunk[:start], self._next_sequence)
                    break
        if content is None:
            yield _text(chunk, self._next_sequence)
            return
        yield self._frame(content)

    def _frame(self, content: bytes) -> Frame:
        header = FrameHeader.unpack(content)
        expected = self._next_sequence & 0xFFFF
        if header["sequence"] != expected:
            raise LinkError(f"frame {expected} is missing: frame {header['sequence']} came in its place")
        try:
            frame_type = FrameType(header["type"])
        except ValueError as error:
            raise LinkError(
                f"frame {expected} has the unknown type {header['type']}",
                hint="the firmware is newer or older than the harness: build it with `make firmware`",
            ) from error
        self._next_sequence += 1
        return Frame(frame_type, header["sequence"], content[FrameHeader.size :])


def encode(frame: Frame, *, printable: bool = False) -> bytes:
    """Return the bytes of a frame on the wire, delimiter included; for recordings and tests."""
    content = FrameHeader.pack({"type": frame.type, "reserved": 0, "sequence": frame.sequence}) + frame.payload
    content += zlib.crc32(content).to_bytes(_CRC_BYTES, "little")
    if printable:
        return bytes((PRINTABLE_MARK,)) + base64.b64encode(content) + b"\n"
    return bytes(cobs.encode(content)) + b"\0"


def _unwrap(chunk: bytes) -> bytes | None:
    """Return header and payload of the frame that `chunk` encodes, or None when it is not a frame."""
    try:
        return _check(bytes(cobs.decode(chunk)))
    except cobs.DecodeError:
        return None


def _unwrap_line(line: bytes) -> bytes | None:
    """Return header and payload of the frame that a line of a printable link is, or None when it is not a frame."""
    try:
        return _check(base64.b64decode(line[1:].rstrip(b"\r"), validate=True)) if line[0] == PRINTABLE_MARK else None
    except binascii.Error:
        return None


def _check(content: bytes) -> bytes | None:
    """Return header and payload, or None where the CRC-32 behind them is not theirs."""
    size = len(content) - _CRC_BYTES
    if not FrameHeader.size <= size <= FrameHeader.size + MAX_FRAME_PAYLOAD:
        return None
    if zlib.crc32(content[:size]).to_bytes(_CRC_BYTES, "little") != content[size:]:
        return None
    return content[:size]


def _text(chunk: bytes, sequence: int) -> Text:
    """Return `chunk` as console lines. Raises TargetError when it is not readable: then it is a damaged frame."""
    try:
        text = chunk.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text or any(byte < 0x20 and byte not in _TEXT_CONTROLS for byte in chunk):
        start = chunk[:12].hex(" ") + (" ..." if len(chunk) > 12 else "")
        raise LinkError(
            f"frame {sequence & 0xFFFF} is damaged: {len(chunk)} bytes ({start}) are neither a frame with a valid CRC "
            f"nor text"
        )
    return Text(tuple(line.rstrip("\r") for line in text.splitlines()))


def _end_of_text(data: bytes) -> int:
    """Return how much of a long text without a zero byte is taken from it.

    No line and no character is cut in two, and no frame that may have started behind it.
    """
    last = len(data) - _MAX_ENCODED
    line = data.rfind(b"\n", 0, last) + 1
    if line:
        return line
    while last > 0 and data[last] & 0xC0 == 0x80:  # a further byte of a character in UTF-8
        last -= 1
    return last or len(data)
