"""The file that an FVP writes its UART's output to, and what the bytes in it say about the UART."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ethos_hil.harness.link.control_bytes import PARAMETERS

_COMMANDS = tuple(bytes([byte]) for byte in PARAMETERS)
_KEPT = 1 << 20
"""Bytes that are kept. In so many of a frame's bytes each value comes up, where it can."""


class UartFile:
    """A file that an FVP appends to. It may not be there yet.

    Attributes:
        total: bytes read so far.
        first: the first ones of them, at most _KEPT.
        last: the last one of them, or b"".
        unfinished: bytes since the last zero, which ends a frame.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self.total = 0
        self.first = bytearray()
        self.last = b""
        self.unfinished = 0
        self._heard = time.monotonic()

    def __enter__(self) -> UartFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def read(self) -> bytes:
        """Return the bytes that were added since the last call."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return b""
        data = b""
        while more := os.read(self._descriptor, 1 << 20):
            data += more
        self.total += len(data)
        self.first += data[: _KEPT - len(self.first)]
        self.last = data[-1:] or self.last
        if data:
            self._heard = time.monotonic()
        self.unfinished = len(data) - data.rindex(0) - 1 if 0 in data else self.unfinished + len(data)
        return data

    @property
    def quiet_seconds(self) -> float:
        """Return how long no byte has come."""
        return time.monotonic() - self._heard

    def stopped_for(self, seconds: float) -> bool:
        """Return whether the output stopped so long ago, within a binary frame and at a byte that a UART may obey."""
        return self.unfinished > 0 and self.last in _COMMANDS and self.quiet_seconds > seconds


def refused_binary(received: bytes, last: bytes) -> str | None:
    """Return what says that a UART takes a byte of the frames for a command, or None where nothing does.

    It is asked about an output that stops within a frame, or has a damaged one. A UART that passes the byte on before
    it obeys stops right behind it; otherwise the byte never came. A byte that came, and others behind it, has no
    meaning.

    Args:
        received: the first bytes that came, _KEPT or fewer.
        last: the last byte, or b"".
    """
    if not received:
        return None
    for byte, parameter in PARAMETERS.items():
        if last == bytes([byte]):
            return f"the UART's output stops at byte 0x{byte:02x}, which a UART can take for a command ({parameter})"
    never = [f"0x{byte:02x} ({parameter})" for byte, parameter in PARAMETERS.items() if byte not in received]
    if not never or len(received) >= _KEPT:
        return None
    return (
        f"no byte {' or '.join(never)} is among the {len(received)} that came, and a UART can take "
        f"{'that' if len(never) == 1 else 'either'} for a command"
    )
