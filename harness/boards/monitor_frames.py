"""Frames to and from the firmware's resident monitor (docs/formats.md, "Monitor")."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cobs import cobs

from ethos_hil.harness.image.formats import (
    MAILBOX_MAGIC,
    FrameHeader,
    HostFrameType,
    HostHeader,
    Mailbox,
    MonitorFrameType,
    Ready,
    Received,
    Refused,
    Speed,
    Started,
    Struct,
)
from ethos_hil.harness.image.pack import Clocks

_PAYLOADS: dict[MonitorFrameType, Struct] = {
    MonitorFrameType.READY: Ready,
    MonitorFrameType.RECEIVED: Received,
    MonitorFrameType.REFUSED: Refused,
    MonitorFrameType.STARTED: Started,
    MonitorFrameType.SPEED: Speed,
}
_CRC_BYTES = 4
_MOST = FrameHeader.size + max(record.size for record in _PAYLOADS.values()) + _CRC_BYTES
_MOST_ENCODED = _MOST + 2
_MOST_PENDING = 1 << 16
"""Bytes without a zero after which they are passed on. A frame is far shorter."""


@dataclass(frozen=True)
class Reply:
    """A frame of the monitor."""

    type: MonitorFrameType
    values: dict[str, Any]


def command(kind: HostFrameType, payload: bytes = b"", *, upload: int = 0, offset: int = 0) -> bytes:
    """Return the bytes of a frame to the device, its delimiter included.

    Args:
        kind: what it asks for.
        payload: what the frame brings.
        upload: number of the upload; of SYNC a number to repeat.
        offset: of a chunk: its place in the package.
    """
    fields = {"type": kind, "reserved": bytes(3), "upload": upload, "offset": offset, "size": len(payload)}
    head = HostHeader.pack({**fields, "crc32": 0})[:-_CRC_BYTES]
    content = head + zlib.crc32(head).to_bytes(_CRC_BYTES, "little")
    content += payload + zlib.crc32(payload).to_bytes(_CRC_BYTES, "little")
    return bytes(cobs.encode(content)) + b"\0"


def mailbox(clocks: Clocks) -> bytes:
    """Return what a loader writes to `monitor_mailbox`.

    Args:
        clocks: the board's, and the speed of the line at the start.
    """
    fields = {
        "magic": MAILBOX_MAGIC,
        "cpu_hz": clocks.cpu_hz,
        "peripheral_hz": clocks.peripheral_hz,
        "baud": clocks.baud,
        "first_baud": clocks.baud,
    }
    head = Mailbox.pack({**fields, "crc32": 0})[:-_CRC_BYTES]
    return head + zlib.crc32(head).to_bytes(_CRC_BYTES, "little")


class Splitter:
    """Takes bytes from the line, and separates the monitor's frames from all others."""

    def __init__(self) -> None:
        """Begin anywhere: what stands before the first zero is no frame of the monitor."""
        self._pending = b""

    def feed(self, data: bytes) -> Iterator[Reply | bytes]:
        """Yield the monitor's frames, and what stands between them with its zeros, in their order."""
        *chunks, self._pending = (self._pending + data).split(b"\0")
        other = b""
        for chunk in chunks:
            reply = _reply(chunk)
            if reply is None:
                other += chunk + b"\0"
                continue
            if other:
                yield other
                other = b""
            yield reply
        if len(self._pending) > _MOST_PENDING:
            other, self._pending = other + self._pending, b""
        if other:
            yield other

    def rest(self) -> bytes:
        """Return what has no end yet, and forget it."""
        rest, self._pending = self._pending, b""
        return rest


def _reply(chunk: bytes) -> Reply | None:
    """Return the monitor's frame that `chunk` is, or None."""
    if not 0 < len(chunk) <= _MOST_ENCODED:
        return None
    try:
        content = bytes(cobs.decode(chunk))
    except cobs.DecodeError:
        return None
    body, stated = content[:-_CRC_BYTES], content[-_CRC_BYTES:]
    if len(body) < FrameHeader.size or zlib.crc32(body).to_bytes(_CRC_BYTES, "little") != stated:
        return None
    try:
        kind = MonitorFrameType(FrameHeader.unpack(body)["type"])
    except ValueError:
        return None
    record = _PAYLOADS[kind]
    payload = body[FrameHeader.size :]
    return Reply(kind, record.unpack(payload)) if len(payload) == record.size else None
