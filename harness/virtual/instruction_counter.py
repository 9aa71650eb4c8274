"""The cycle counter of a virtual processor, which counts instructions: QEMU knows no cycles.

A plug-in of QEMU counts them (counter.c). This process serves the two registers of the DWT that software needs: QEMU's
own read as zero. Registers: Armv8-M Architecture Reference Manual, D1.2, DWT_CTRL and DWT_CYCCNT.
"""

from __future__ import annotations

import mmap

from ethos_hil.harness.socs.soc import Window
from ethos_hil.harness.virtual.plugin import Plugin, PluginState

DWT = Window(0xE0001000, 8)
_CONTROL, _COUNT = 0, 4
_ENABLE = 1 << 0
_FIXED = 0
"""No comparators: NUMCOMP is 0. The cycle counter is there: NOCYCCNT is 0."""


class InstructionCounter(PluginState):
    """Counts a guest's instructions while a QEMU with its plug-in lives. It is the DWT's registers, too.

    Attributes:
        plugin: to start QEMU with.
    """

    def __init__(self) -> None:
        """Prepare to count. Raises OSError."""
        super().__init__("counter", mmap.PAGESIZE)
        self._enabled = False
        self._start = 0
        self.plugin = Plugin("counter", "instructions are counted", state=self._file)

    @property
    def executed(self) -> int:
        """Instructions since QEMU started. One that accesses a register served by this process counts twice."""
        return int.from_bytes(self._map[:8], "little")

    def read(self, offset: int) -> int:
        """Return the register's value."""
        if offset == _CONTROL:
            return _FIXED | (_ENABLE if self._enabled else 0)
        return (self.executed - self._start) & 0xFFFFFFFF if self._enabled else 0

    def write(self, offset: int, value: int) -> None:
        """Write the register. Raises Unmodelled."""
        if offset == _CONTROL:
            if not self._enabled:
                self._start = self.executed
            self._enabled = bool(value & _ENABLE)
        elif value:
            from ethos_hil.harness.virtual.device import Unmodelled  # late: it imports the NPU's model, for 0.1 s

            raise Unmodelled(f"0x{value:x} is written to DWT_CYCCNT")
        else:
            self._start = self.executed
