"""OpenOCD's remote bit-bang protocol: a byte for each change of the pins, and one back for each look at TDO.

OpenOCD describes it in doc/manual/jtag/drivers/remote_bitbang.txt. "0" to "7" set TCK, TMS and TDI, in this order of
bits from the highest; "R" asks for TDO; "r" to "u" set TRST and SRST; "B", "b" are a lamp; "Q" ends.
"""

from __future__ import annotations

import re

from ethos_hil.suites.lab.bench.probes.debug_port import DebugPort
from ethos_hil.suites.lab.bench.probes.front_end import FrontEnd
from ethos_hil.suites.lab.bench.probes.jtag_tap import SHIFTING, STILL, JtagTap

_CYCLES = re.compile(rb"(?:0R4|1R5)+|(?:04|15)+")
"""Whole cycles of TCK with TMS low, all of them with a look at TDO or none."""
_ORDER = bytes.maketrans(b"45", b"01")


class RemoteBitbang(FrontEnd):
    """The pins of a test access port with one client."""

    def __init__(self, port: DebugPort) -> None:
        """Wire a debug port up."""
        self._tap = JtagTap(port)
        self._port = port
        self._tck = 0
        self._in_reset = self._ended = False

    @property
    def ended(self) -> bool:
        """Whether the client has said so."""
        return self._ended

    def feed(self, data: bytes) -> bytes:
        """Take changes of the pins, and return the levels that were asked for."""
        out = bytearray()
        at = 0
        while at < len(data):
            many = _CYCLES.match(data, at) if not self._tck and self._tap.state in (*SHIFTING, *STILL) else None
            if many is None:
                out += self._one(data[at])
                at += 1
                continue
            out += self._many(many[0])
            at = many.end()
        return bytes(out)

    def _many(self, cycles: bytes) -> bytes:
        """Take whole cycles with TMS low."""
        looks = b"R" in cycles
        levels = cycles.translate(_ORDER, b"01R")
        count = len(levels)
        if self._tap.state in STILL:
            return (b"1" if self._tap.tdo else b"0") * count if looks else b""
        came = self._tap.shift(int(levels[::-1], 2), count)
        return f"{came:0{count}b}"[::-1].encode() if looks else b""

    def _one(self, byte: int) -> bytes:
        if ord("0") <= byte <= ord("7"):
            tck = byte >> 2 & 1
            if tck and not self._tck:
                self._tap.clock(byte >> 1 & 1, byte & 1)
            self._tck = tck
        elif byte == ord("R"):
            return b"1" if self._tap.tdo else b"0"
        elif ord("r") <= byte <= ord("u"):
            self._set_resets(byte - ord("r"))
        elif byte == ord("Q"):
            self._ended = True
        return b""

    def _set_resets(self, lines: int) -> None:
        """Set TRST, bit 1, and SRST, bit 0. The board starts again when SRST is let go."""
        if lines & 2:
            self._tap.reset()
        if self._in_reset and not lines & 1:
            self._port.reset_board()
        self._in_reset = bool(lines & 1)
