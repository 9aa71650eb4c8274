"""The board's end of the serial line: UART 0 of the guest (line_uart.c), and the two pipes to it."""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import os
import struct
import termios
from pathlib import Path

from ethos_hil.harness.socs.soc import Window
from ethos_hil.harness.virtual.plugin import Plugin

_STATE = struct.Struct("<7I")
"""`struct State` of line_uart.c."""
_DIVIDER_AT, _OVERRUN_AT, _ROOM_AT, _RECEIVED_AT, _HELD_AT = 4, 8, 12, 16, 24
_RECORD = 4
"""Bytes of the pipe for each byte that the guest sends: the byte, zero, and the divider that it was sent with."""
LEAST_ROOM = 16
"""Bytes that the guest may always have waiting to be sent."""
MOST_ROOM = 1024
"""Bytes that may wait to be sent at most."""
_MOST_UNREAD = 4096
"""Bytes that may wait for the guest. A pipe takes more; one of a single page is full when its end is, read or not."""


class LineUart:
    """Registers and pipes of one UART. They outlive the QEMU that has them, so power can come and go.

    Attributes:
        plugin: to start QEMU with.
        sent: read end of the pipe with what the guest sends, for selectors.
    """

    def __init__(self, window: Window) -> None:
        """Make one at the address of the machine's own UART. Raises OSError."""
        self._state_file = os.memfd_create("ethos-hil-uart", os.MFD_CLOEXEC)
        os.ftruncate(self._state_file, mmap.PAGESIZE)
        self._state = mmap.mmap(self._state_file, mmap.PAGESIZE)
        self._guest_receives, self._to_guest = os.pipe()
        self.sent, self._guest_sends = os.pipe()
        os.set_blocking(self._to_guest, False)
        os.set_blocking(self.sent, False)
        self.plugin = Plugin(
            "line_uart",
            "the bench board's serial line goes into QEMU",
            # The machine shows other code's addresses to secure code too.
            (f"uart={min(window.bases):#x}", f"received={self._guest_receives}", f"sent={self._guest_sends}"),
            self._state_file,
            (self._guest_receives, self._guest_sends),
            Path(__file__).parent,
        )
        self.reset()

    @property
    def divider(self) -> int:
        """BAUDDIV: cycles of the UART's clock for a bit, 0 until the guest sets it."""
        return self._word(_DIVIDER_AT)

    @property
    def received(self) -> int:
        """Bytes that the guest has read, modulo 2**32."""
        return self._word(_RECEIVED_AT)

    def reset(self) -> None:
        """Put the registers into their state after a reset. What was on the way to the guest is lost."""
        self.take_unread()
        self._state[: _STATE.size] = _STATE.pack(0, 0, 0, LEAST_ROOM, 0, 0, 0)

    def take_unread(self) -> int:
        """Take away what the guest has not read. Return how many bytes that was."""
        os.set_blocking(self._guest_receives, False)
        taken = self._word(_HELD_AT)
        self._state[_HELD_AT : _HELD_AT + 4] = bytes(4)
        with contextlib.suppress(BlockingIOError):
            while True:
                taken += len(os.read(self._guest_receives, _MOST_UNREAD))
        return taken

    def unread(self) -> int:
        """Return how many bytes are on their way to the guest: in the pipe, and in its UART's hands."""
        return _waiting(self._guest_receives) + self._word(_HELD_AT)

    def space(self) -> int:
        """Return how many more bytes fit into the pipe to the guest."""
        return max(0, _MOST_UNREAD - self.unread())

    def unsent(self) -> int:
        """Return how many bytes the guest has written and `take_sent` has not returned."""
        return _waiting(self.sent) // _RECORD

    def set_room(self, size: int) -> None:
        """Say how many bytes the guest may have waiting to be sent, before its UART is full."""
        self._state[_ROOM_AT : _ROOM_AT + 4] = min(max(size, LEAST_ROOM), MOST_ROOM).to_bytes(4, "little")

    def give(self, data: bytes) -> int:
        """Let bytes arrive at the guest. Return how many of them fitted; the rest is the line's loss."""
        try:
            return os.write(self._to_guest, data[: self.space()])
        except BlockingIOError:
            return 0

    def lose(self) -> None:
        """Tell the guest that a received byte was lost (STATE.RXOR)."""
        self._state[_OVERRUN_AT : _OVERRUN_AT + 4] = b"\1\0\0\0"

    def take_sent(self, most: int) -> list[tuple[int, bytes]]:
        """Return at most that many bytes that the guest has sent: runs of them, each with its divider."""
        try:
            data = os.read(self.sent, most * _RECORD)
        except BlockingIOError:
            return []
        runs: list[tuple[int, bytearray]] = []
        for record in range(0, len(data), _RECORD):
            divider = int.from_bytes(data[record + 2 : record + _RECORD], "little")
            if not runs or runs[-1][0] != divider:
                runs.append((divider, bytearray()))
            runs[-1][1].append(data[record])
        return [(divider, bytes(run)) for divider, run in runs]

    def close(self) -> None:
        """Give everything back. May be called again."""
        if self.sent >= 0:
            for descriptor in (self._guest_receives, self._to_guest, self.sent, self._guest_sends, self._state_file):
                os.close(descriptor)
            self.sent = -1
            self._state.close()

    def _word(self, at: int) -> int:
        return int.from_bytes(self._state[at : at + 4], "little")


def _waiting(pipe: int) -> int:
    """Return how many bytes are in a pipe."""
    count = array.array("i", (0,))
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]
