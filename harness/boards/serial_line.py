"""The serial line to a board: whatever pyserial's `serial_for_url` opens, with every wait bounded.

pyserial's own time limits are not used for reading. Changing one reconfigures the port, which on RFC 2217 is a
negotiation, and a read of many bytes waits for the last of them. So the port never waits; this module does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import time
from typing import Any

import serial

from ethos_hil.base.errors import LinkError, TargetError, TargetNotAvailable
from ethos_hil.harness.boards.board import Board, Quirk

_WRITE_SECONDS = 5.0
"""A write that takes longer is not going to end: no one reads at the other end."""
_DROP_SECONDS = 1.0
_POLL_SECONDS = 0.001
"""Between two looks at a port that has no file descriptor."""
_SHORT_WRITE = 64
"""Bytes of a packet that a probe with mass storage passes on whole (openthread#2857)."""
_MOST = 1 << 16
"""Bytes that are read at once."""
_PULLED = (errno.EIO, errno.ENXIO, errno.ENODEV, errno.EBADF)


class SerialLine:
    """An open port. A context manager.

    Attributes:
        url: as it was opened.
        sent, received: bytes so far.
    """

    def __init__(self, url: str, baud: int, most: int = _MOST) -> None:
        """Open a port, for this process alone where the system can do that.

        Args:
            url: a device, or what pyserial's `serial_for_url` takes.
            baud: bits per second.
            most: bytes that are written at once.

        Raises:
            TargetNotAvailable: it cannot be opened; says why.
        """
        self.url = url
        self.sent = self.received = 0
        self._baud = baud
        self._most = most
        self._open()

    @classmethod
    def of(cls, board: Board, url: str, baud: int) -> SerialLine:
        """Open a board's port, and write to it as its probe needs it. Arguments and errors as above."""
        return cls(url, baud, _SHORT_WRITE if Quirk.SHORT_WRITES in board.quirks else _MOST)

    def _open(self) -> None:
        options: dict[str, Any] = {} if "://" in self.url else {"exclusive": True}
        if not self.url.startswith("rfc2217://"):  # pyserial knows no such limit there; its socket has one of 5 s
            options["write_timeout"] = _WRITE_SECONDS
        try:
            self._port: Any = serial.serial_for_url(self.url, baudrate=self._baud, timeout=0, **options)
        except (OSError, ValueError) as error:  # serial.SerialException is an OSError
            raise _not_opened(self.url, error) from error
        self._file = _file_of(self._port)

    def reopen(self) -> None:
        """Close the port and open it again.

        Raises:
            TargetNotAvailable: it cannot be opened any more.
        """
        self.close()
        self._open()

    def __enter__(self) -> SerialLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def baud(self) -> int:
        """Bits per second at this end."""
        return self._baud

    @baud.setter
    def baud(self, baud: int) -> None:
        if baud != self._baud:
            try:
                self._port.baudrate = baud
            except (OSError, ValueError) as error:
                raise self._broken(error) from error
            self._baud = baud

    def seconds_for(self, count: int) -> float:
        """Return how long `count` bytes take on the line: ten bits each, with start and stop bit."""
        return count * 10 / self._baud

    def write(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            TargetError: kind "link": the port is gone, or takes nothing.
        """
        try:
            view = memoryview(data)
            while view:
                view = view[self._port.write(view[: self._most]) :]
        except serial.SerialTimeoutException as error:
            raise LinkError(
                f"the serial port {self.url} did not take {min(len(view), self._most):,} bytes within "
                f"{_WRITE_SECONDS:g} s",
                hint="is the board still there, and is flow control off at both ends?",
            ) from error
        except OSError as error:
            raise self._broken(error) from error
        self.sent += len(data)

    def read(self, seconds: float) -> bytes:
        """Return the bytes that have come; wait at most `seconds` for the first one. b"" where none comes.

        Raises:
            TargetError: kind "link": the port is gone.
        """
        end = time.monotonic() + seconds
        try:
            while not (data := self._available()):
                left = end - time.monotonic()
                if left <= 0:
                    return b""
                self._wait(left)
        except OSError as error:
            raise self._broken(error) from error
        self.received += len(data)
        return data

    def drop_input(self) -> None:
        """Forget what has come and was not read. What never falls silent is given up after a second."""
        end = time.monotonic() + _DROP_SECONDS
        while self.read(0) and time.monotonic() < end:
            pass

    def close(self) -> None:
        """Close the port. May be called again."""
        with contextlib.suppress(OSError):
            self._port.close()

    def _available(self) -> bytes:
        if self._file is not None:
            # One system call, where `Serial.read` makes three for each piece.
            if not select.select([self._file], [], [], 0)[0]:
                return b""
            data = self._port.read(_MOST) if self.url.startswith("socket://") else os.read(self._file, _MOST)
            if not data:
                raise OSError(errno.EIO, "the other end is closed")
            return bytes(data)
        received = b""
        while more := self._port.read(max(1, self._port.in_waiting)):
            received += more
            if len(received) >= _MOST:
                break
        return received

    def _wait(self, seconds: float) -> None:
        if self._file is not None:
            select.select([self._file], [], [], seconds)
        else:
            time.sleep(min(seconds, _POLL_SECONDS))

    def _broken(self, error: Exception) -> TargetError:
        # pyserial's error for a write has only a text; the system's is the one that it was made from.
        pulled = any(getattr(cause, "errno", None) in _PULLED for cause in (error, error.__context__))
        what = "is gone" if pulled else f"broke: {error}"
        return LinkError(f"the serial port {self.url} {what}", hint="is the cable plugged in, and the board powered?")


def _file_of(port: Any) -> int | None:
    """Return the descriptor to wait for, or None: RFC 2217 and loop:// have none."""
    try:
        return int(port.fileno())
    except (OSError, AttributeError):
        return None


def _not_opened(url: str, error: Exception) -> TargetNotAvailable:
    number = getattr(error, "errno", None)
    if number == errno.ENOENT:
        hint = "is the cable plugged in? `python -m serial.tools.list_ports -v` lists the ports"
    elif number == errno.EACCES:
        hint = "join the group that owns it (usually dialout), and log in again"
    elif number in (errno.EAGAIN, errno.EBUSY):
        hint = "another program has it open: a terminal, or another run"
    else:
        hint = "a device such as /dev/ttyACM0, or a URL that pyserial's serial_for_url takes"
    reason = os.strerror(number) if number else str(error)
    return TargetNotAvailable(f"the serial port {url} cannot be opened: {reason}", hint=hint)
