"""A Debug Port (Arm Debug Interface Architecture Specification ADIv5.2, ARM IHI 0031) with one access port behind it.

SWD and JTAG carry the same registers, and differ in how an error is told and cleared. That is the front ends' part, but
for the registers: ABORT clears flags where SWD is used, and writing ones to CTRL/STAT does where JTAG is.
"""

from __future__ import annotations

from ethos_hil.suites.lab.bench.probes.debug_bus import DebugBus
from ethos_hil.suites.lab.bench.probes.mem_ap import MemAp
from ethos_hil.suites.lab.bench.probes.probed_board import BusFault

DPIDR, ABORT, CTRL_STAT, SELECT, RDBUFF = 0x0, 0x0, 0x4, 0x8, 0xC
IDENTITY = 0x2BA01477
"""DPIDR of a Debug Port of version 1 by Arm."""
STICKYORUN, STICKYCMP, STICKYERR, WDATAERR = 1 << 1, 1 << 4, 1 << 5, 1 << 7
_STICKY = STICKYORUN | STICKYCMP | STICKYERR | WDATAERR
_REQUESTS = 0b10101 << 26
"""CDBGRSTREQ, CDBGPWRUPREQ, CSYSPWRUPREQ; each one's acknowledgement is the bit above it."""
_KEPT = 0xF0F
_CLEARS = {1 << 1: STICKYCMP, 1 << 2: STICKYERR, 1 << 3: WDATAERR, 1 << 4: STICKYORUN}
"""The bits of ABORT, and the flags that they clear."""


class StickyError(Exception):
    """A flag says that an earlier access failed, or this one did. The flag has to be cleared first."""


class DebugPort:
    """The registers of the port, and through them those of the access port.

    Attributes:
        bus: what the access port reaches.
    """

    def __init__(self, bus: DebugBus) -> None:
        """Make a port whose access port, number 0, reaches a bus. No other access port is there."""
        self.bus = bus
        self._ap = MemAp(bus)
        self._control = self._flags = self._select = 0

    @property
    def failed(self) -> bool:
        """Whether an access to the access port has failed since the flag was cleared."""
        return bool(self._flags & STICKYERR)

    def read(self, register: int) -> int:
        """Return a register of the port, by its address: 0, 4, 8 or 12."""
        if register == CTRL_STAT:
            return 0 if self._select & 0xF else self._control | (self._control & _REQUESTS) << 1 | self._flags
        return IDENTITY if register == DPIDR else 0

    def write(self, register: int, value: int, *, clears: bool = False) -> None:
        """Write a register of the port.

        Args:
            register, value: which, and what.
            clears: whether ones in CTRL/STAT clear flags, as they do over JTAG.
        """
        if register == ABORT:
            self.abort(value)
        elif register == SELECT:
            self._select = value
        elif register == CTRL_STAT and not self._select & 0xF:
            self._control = value & (_REQUESTS | _KEPT & ~_STICKY)
            if clears:
                self._flags &= ~(value & _STICKY)

    def abort(self, value: int) -> None:
        """Write ABORT."""
        for bit, flag in _CLEARS.items():
            if value & bit:
                self._flags &= ~flag

    def read_ap(self, register: int) -> int:
        """Return a register of the selected access port; its bank is selected too.

        Raises:
            StickyError: an access failed.
        """
        self._refuse()
        try:
            return 0 if self._select >> 24 else self._ap.read(self._select & 0xF0 | register & 0xC)
        except BusFault as error:
            raise self._fail(error) from error

    def write_ap(self, register: int, value: int) -> None:
        """Write a register of the selected access port.

        Raises:
            StickyError: an access failed.
        """
        self._refuse()
        try:
            if not self._select >> 24:
                self._ap.write(self._select & 0xF0 | register & 0xC, value)
        except BusFault as error:
            raise self._fail(error) from error

    def flush(self) -> None:
        """Carry out what was posted; a failure sets the flag."""
        try:
            self.bus.flush()
        except BusFault:
            self._flags |= STICKYERR

    def reset_board(self) -> None:
        """Pull the board's reset line and let it go; a failure sets the flag."""
        try:
            self.bus.reset()
        except BusFault:
            self._flags |= STICKYERR

    def leave(self) -> None:
        """A debugger is gone: a processor that it did not halt is left alone."""
        self.flush()
        self.bus.leave()

    def _refuse(self) -> None:
        if self.failed:
            raise StickyError("an earlier access failed")

    def _fail(self, error: BusFault) -> StickyError:
        self._flags |= STICKYERR
        return StickyError(str(error))
