"""The peripherals behind the intercepted windows, and the bus that leads a load or store to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ethos_hil.harness.socs.soc import LEAST_BAUD_DIVIDER, Window
from ethos_hil.harness.virtual.device import Unmodelled


class Peripheral(Protocol):
    """Registers of 32 bits at offsets that are multiples of 4. `ethos_hil.harness.virtual.device.Device` is one."""

    def read(self, offset: int) -> int:
        """Return the register's value. Raises Unmodelled."""

    def write(self, offset: int, value: int) -> None:
        """Write the register. Raises Unmodelled."""


class ConstantDevice:
    """A device whose registers never change: some have a value, the others read as zero, and writes are ignored."""

    def __init__(self, values: Mapping[int, int]) -> None:
        self._values = values

    def read(self, offset: int) -> int:
        """Return the register's value, or zero."""
        return self._values.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Ignore the write."""


class AbsentDevice(ConstantDevice):
    """A device that the board leaves out, or a dead memory: reads give zero and writes of any size are ignored."""

    def __init__(self) -> None:
        super().__init__({})


class TimingAdapters:
    """Both timing adapters, of the version that software looks for. They only keep what is written.

    Attributes:
        stored: registers by their offset in the window.
    """

    _VERSION, _KNOWN = 0x38, 0x1117
    _BLOCK = 0x100
    """Bytes that hold no more than one adapter."""

    def __init__(self) -> None:
        self.stored: dict[int, int] = {}

    def read(self, offset: int) -> int:
        """Return the register's value."""
        return self._KNOWN if offset % self._BLOCK == self._VERSION else self.stored.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Keep the value."""
        self.stored[offset] = value


class Uart:
    """The transmitter of a CMSDK APB UART. Registers: Arm Cortex-M System Design Kit TRM.

    It sends while CTRL enables it and BAUDDIV is at least 16. Each byte takes until STATE was read `full_polls` times,
    and one that is written before that is lost.

    Attributes:
        sent: bytes that software wrote and `take` has not returned yet.
        lost: why the first byte was lost that was not sent, or None.
    """

    _DATA, _STATE, _CONTROL, _INTERRUPT, BAUD_DIVIDER = range(0, 0x14, 4)
    _TX_FULL, _TX_OVERRUN, _TX_ENABLE = 1 << 0, 1 << 2, 1 << 0
    _IDENTITY_AT = 0xFD0
    _IDENTITY = (0x04, 0, 0, 0, 0x21, 0xB8, 0x1B, 0, 0x0D, 0xF0, 0x05, 0xB1)
    """PID4 to PID7, PID0 to PID3, CID0 to CID3."""

    def __init__(self, full_polls: int = 0) -> None:
        self._stored = {self._CONTROL: 0, self._INTERRUPT: 0, self.BAUD_DIVIDER: 0}
        self._full_polls = full_polls
        self._polls_left = 0
        self._overrun = 0
        self.sent = b""
        self.lost: str | None = None

    def take(self) -> bytes:
        """Return the bytes sent since the last call."""
        data, self.sent = self.sent, b""
        return data

    def read(self, offset: int) -> int:
        """Return the register's value. Raises Unmodelled."""
        if offset == self._DATA:  # nothing is ever received
            return 0
        if offset == self._STATE:
            full = self._TX_FULL if self._polls_left else 0
            self._polls_left = max(0, self._polls_left - 1)
            return full | self._overrun
        if offset in self._stored:
            return self._stored[offset]
        if offset >= self._IDENTITY_AT:
            return self._IDENTITY[(offset - self._IDENTITY_AT) // 4]
        raise Unmodelled(f"the UART register at offset 0x{offset:x} is read")

    def write(self, offset: int, value: int) -> None:
        """Write the register. Raises Unmodelled."""
        if offset == self._DATA:
            self._send(value & 0xFF)
        elif offset == self._STATE:  # a one clears the overrun
            self._overrun &= ~value
        elif offset == self._INTERRUPT:
            pass  # clears interrupts; there are none
        elif offset in self._stored:
            self._stored[offset] = value
        elif offset < self._IDENTITY_AT:
            raise Unmodelled(f"the UART register at offset 0x{offset:x} is written")

    def _send(self, byte: int) -> None:
        divider = self._stored[self.BAUD_DIVIDER]
        if not self._stored[self._CONTROL] & self._TX_ENABLE:
            self.lost = self.lost or "a byte is written to the UART while its transmitter is off (CTRL.TXEN)"
        elif divider < LEAST_BAUD_DIVIDER:
            self.lost = self.lost or f"a byte is written to the UART with BAUDDIV {divider}; it sends from 16 on"
        elif self._polls_left:
            self._overrun = self._TX_OVERRUN
            self.lost = self.lost or "a byte is written to the UART before the last one was sent (STATE.TXFULL)"
        else:
            self.sent += bytes((byte,))
            self._polls_left = self._full_polls


class PeripheralBus:
    """The peripherals as the target of one load or store."""

    def __init__(self, windows: Mapping[Window, Peripheral]) -> None:
        self._windows = windows

    def load(self, address: int, size: int) -> int:
        """Load as `ethos_hil.harness.virtual.intercepted_access.Bus` does. Raises Unmodelled."""
        peripheral, offset, shift = self._find(address, size)
        return peripheral.read(offset) >> shift & (1 << 8 * size) - 1

    def store(self, address: int, size: int, value: int) -> None:
        """Store as `ethos_hil.harness.virtual.intercepted_access.Bus` does. Raises Unmodelled."""
        peripheral, offset, _ = self._find(address, size)
        if size != 4 and not isinstance(peripheral, AbsentDevice):
            raise Unmodelled(f"{size} of the 4 bytes of the register at 0x{address & ~3:08x} are written")
        peripheral.write(offset, value)

    def _find(self, address: int, size: int) -> tuple[Peripheral, int, int]:
        """Return the peripheral, the register's offset, and the bits to the right of those accessed."""
        for window, peripheral in self._windows.items():
            for base in window.bases:
                if base <= address < base + window.size:
                    offset = address - base
                    if offset % size:
                        raise Unmodelled(f"the register at 0x{address & ~3:08x} is accessed unaligned")
                    return peripheral, offset & ~3, 8 * (offset & 3)
        raise Unmodelled(f"0x{address:08x}, next to an intercepted window, is accessed together with it")
