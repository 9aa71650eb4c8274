"""The peripherals behind the intercepted windows, and the bus that leads a load or store to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ethos_hil.harness.socs.soc import Window
from ethos_hil.harness.virtual.device import Unmodelled


class Peripheral(Protocol):
    """Registers of 32 bits at offsets that are multiples of 4. `ethos_hil.harness.virtual.device.Device` is one."""

    def read(self, offset: int) -> int:
        """Return the register's value. Raises Unmodelled."""

    def write(self, offset: int, value: int) -> None:
        """Write the register. Raises Unmodelled."""


class AbsentDevice:
    """An optional device that the board leaves out: reads give zero and writes are ignored."""

    def read(self, offset: int) -> int:
        """Return zero."""
        return 0

    def write(self, offset: int, value: int) -> None:
        """Ignore the write."""


class ConstantDevice:
    """A device whose registers never change: some have a value, the others read as zero, and writes are ignored."""

    def __init__(self, values: Mapping[int, int]) -> None:
        self._values = values

    def read(self, offset: int) -> int:
        """Return the register's value, or zero."""
        return self._values.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Ignore the write."""


class Uart:
    """The transmitter of a CMSDK APB UART that is never full. Registers: Arm Cortex-M System Design Kit TRM.

    Attributes:
        sent: bytes that software wrote and `take` has not returned yet.
    """

    _DATA, _STATE, _CONTROL, _INTERRUPT, _BAUD_DIVIDER = range(0, 0x14, 4)

    def __init__(self) -> None:
        self._stored = {self._CONTROL: 0, self._INTERRUPT: 0, self._BAUD_DIVIDER: 0}
        self.sent = b""

    def take(self) -> bytes:
        """Return the bytes sent since the last call."""
        data, self.sent = self.sent, b""
        return data

    def read(self, offset: int) -> int:
        """Return the register's value. Raises Unmodelled."""
        if offset in (self._DATA, self._STATE):  # nothing is ever received; the buffers are empty
            return 0
        if offset in self._stored:
            return self._stored[offset]
        raise Unmodelled(f"the UART register at offset 0x{offset:x} is read")

    def write(self, offset: int, value: int) -> None:
        """Write the register. Raises Unmodelled."""
        if offset == self._DATA:
            self.sent += bytes((value & 0xFF,))
        elif offset == self._INTERRUPT:
            pass  # clears interrupts; there are none
        elif offset in self._stored:
            self._stored[offset] = value
        elif offset != self._STATE:  # ones written to STATE clear overruns; there are none
            raise Unmodelled(f"the UART register at offset 0x{offset:x} is written")


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
        if size != 4:
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
