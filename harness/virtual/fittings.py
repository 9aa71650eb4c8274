"""What a board has where boards of one system differ: its UART, its timing adapters, and memories that are dead.

A lenient board answers wherever software may look for a device. With the rule "absent-abort" a board has one UART and
no timing adapters, and an access to what it lacks is an external abort: a BusFault of the program.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.socs.soc import Memory, Soc, Window
from ethos_hil.harness.virtual.mps3_an547 import TIMING_ADAPTERS, UART0, UNIMPLEMENTED, changed_map
from ethos_hil.harness.virtual.plugin import DWT, Plugin
from ethos_hil.harness.virtual.rules import Rule


class Adapters(enum.Enum):
    """What is at the addresses of the timing adapters. FPGA images may leave them out."""

    ABORT = "abort"
    """Nothing: an access is an external abort."""
    ZERO = "zero"
    """Registers that read as zero and ignore writes."""
    PRESENT = "present"
    """Timing adapters. They keep what is written, and change no timing."""


@dataclass(frozen=True)
class Fittings:
    """What one board has.

    Attributes:
        uarts: where UART 0 is; several addresses are one UART.
        adapters: its timing adapters.
        dead: parts of memories that read as zero and ignore writes, as memory does that a protection controller has
            given to the other security state.
        full_polls: how often STATE must be read after each byte until the UART has room again; 0: it always has.
        cycle_counter: whether the processor's cycle counter counts. It counts instructions, and slows QEMU down.
    """

    uarts: tuple[Window, ...]
    adapters: Adapters = Adapters.ZERO
    dead: tuple[Window, ...] = ()
    full_polls: int = 0
    cycle_counter: bool = False

    @classmethod
    def of(cls, soc: Soc, rules: Collection[Rule], *, foreign: bool = False) -> Fittings:
        """Return those of a board that keeps `rules`, unless a test wants others.

        A foreign program was written for one of the UART's addresses, and no source says that it is the wrong one.
        """
        if Rule.ABSENT_ABORT in rules:
            return cls(soc.uarts if foreign else soc.uarts[:1], Adapters.ABORT)
        return cls(soc.uarts)

    @property
    def machine_uart(self) -> bool:
        """Whether QEMU's own UART is used. Its transmitter is never full."""
        return UART0 in self.uarts and not self.full_polls

    def served_uarts(self) -> tuple[Window, ...]:
        """Return the windows of the UART that this process serves."""
        return tuple(uart for uart in self.uarts if not (self.machine_uart and uart == UART0))

    def served_adapters(self, soc: Soc) -> tuple[Window, ...]:
        """Return the window of the timing adapters if this process serves them."""
        if soc.timing_adapters is None or self.adapters is Adapters.ABORT:
            return ()
        if self.adapters is Adapters.ZERO and soc.timing_adapters == TIMING_ADAPTERS:
            return ()  # QEMU does
        return (soc.timing_adapters,)

    def served_windows(self, soc: Soc) -> tuple[Window, ...]:
        """Return all windows that this process serves."""
        counter = (DWT,) if self.cycle_counter else ()
        return (soc.npu_registers, *self.served_uarts(), *self.served_adapters(soc), *self.dead, *counter)

    def absent(self, soc: Soc) -> tuple[Window, ...]:
        """Return the windows where the machine answers and this board must not."""
        uarts = () if UART0 in self.uarts else (UART0,)
        if self.adapters is not Adapters.ABORT:
            return uarts
        return (*uarts, *(window for window in UNIMPLEMENTED if window != soc.npu_registers))

    def harmless(self, soc: Soc) -> tuple[Window, ...]:
        """Return the windows that a program may look at without leaving anything behind that a reset does not clear:
        those that are served or absent, and UART 0.
        """
        adapters = () if soc.timing_adapters is None else (soc.timing_adapters,)
        return tuple(dict.fromkeys((*self.served_windows(soc), *soc.uarts, UART0, *UNIMPLEMENTED, *adapters)))

    def plugins(self, soc: Soc, added: Memory | None = None) -> list[Plugin]:
        """Return the plug-ins that QEMU needs for this board. `added`: a memory that its program needs as well."""
        changed = changed_map(added, self.absent(soc))
        return [] if changed is None else [changed]
