"""A MEM-AP (Arm Debug Interface Architecture Specification ADIv5.2, ARM IHI 0031): a window to a bus.

Transfers have 8, 16 or 32 bits; packed ones there are none, as in many parts. An address is counted up within a
kibibyte, as the specification promises at least.
"""

from __future__ import annotations

from ethos_hil.suites.lab.bench.probes.debug_bus import DebugBus
from ethos_hil.suites.lab.bench.probes.rom_table import BASE as ROM_TABLE
from ethos_hil.suites.lab.bench.probes.rom_table import PRESENT_32_BIT

CSW, TAR, DRW, BD0, CFG, BASE, IDR = 0x00, 0x04, 0x0C, 0x10, 0xF4, 0xF8, 0xFC
IDENTITY = 0x84770001
_SIZE, _INCREMENT, _PROTECTION = 0b111, 0b11 << 4, 0x7F << 24
_ENABLED, _SECURE_DEBUG = 1 << 6, 1 << 23
_SINGLE = 1 << 4
_SIZES = {0: 1, 1: 2, 2: 4}
_WRAP = 0x3FF


class MemAp:
    """The registers of an access port. Its methods raise BusFault."""

    def __init__(self, bus: DebugBus) -> None:
        """Open a window to a bus."""
        self._bus = bus
        self._csw = 2
        self._tar = 0

    def read(self, register: int) -> int:
        """Return a register, by its offset."""
        if register == DRW:
            value = self._transfer(None)
            self._count_up()
            return value
        if register & ~0xC == BD0:
            return int.from_bytes(self._bus.read(self._tar & ~0xF | register & 0xC, 4), "little")
        return {
            CSW: self._csw | _ENABLED | _SECURE_DEBUG,
            TAR: self._tar,
            BASE: ROM_TABLE | PRESENT_32_BIT,
            IDR: IDENTITY,
        }.get(register, 0)

    def write(self, register: int, value: int) -> None:
        """Write a register, by its offset. Those that cannot be written ignore it."""
        if register == CSW:
            increment = _SINGLE if value & _INCREMENT == _SINGLE else 0
            size = value & _SIZE if value & _SIZE in _SIZES else 2
            self._csw = value & _PROTECTION | increment | size
        elif register == TAR:
            self._tar = value
        elif register == DRW:
            self._transfer(value)
            self._count_up()
        elif register & ~0xC == BD0:
            self._bus.write(self._tar & ~0xF | register & 0xC, value.to_bytes(4, "little"))

    def _transfer(self, value: int | None) -> int:
        """Read, or write a value. Data of less than 32 bits are where their address says, within the word."""
        size = _SIZES[self._csw & _SIZE]
        lane = self._tar & 3 & -size
        if value is None:
            data = self._bus.read(self._tar & -size, size, sequential=bool(self._csw & _INCREMENT))
            return int.from_bytes(data, "little") << 8 * lane
        self._bus.write(self._tar & -size, (value >> 8 * lane & (1 << 8 * size) - 1).to_bytes(size, "little"))
        return 0

    def _count_up(self) -> None:
        if self._csw & _INCREMENT:
            size = _SIZES[self._csw & _SIZE]
            self._tar = self._tar & ~_WRAP | self._tar + size & _WRAP
