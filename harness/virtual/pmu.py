"""The NPU's performance counters. They count modelled cycles of jobs only: no time passes between jobs."""

from __future__ import annotations

from collections.abc import Mapping

from ethos_hil.harness.npu import Execution

CYCLE_COUNTER = 1 << 31
_ENABLE, _RESET_EVENTS, _RESET_CYCLES, _GATED = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_NO_EVENT, _NPU_IDLE, _NPU_ACTIVE = 0, 32, 35


class Unmodelled(Exception):
    """Software used the NPU in a way whose effect is not established. The message says how."""


class Pmu:
    """One cycle counter of 48 bits, and event counters of 32 bits."""

    def __init__(self, counters: int) -> None:
        self._counters = counters
        self._bits = CYCLE_COUNTER | (1 << counters) - 1
        self._control = 0
        self._enabled = 0
        self._overflows = 0
        self._cycles = 0
        self._events = [0] * counters

    @property
    def enabled(self) -> bool:
        """Whether PMCR lets the counters count."""
        return bool(self._control & _ENABLE)

    @property
    def mask(self) -> int:
        """The counters that are enabled, as PMCNTENSET has them."""
        return self._enabled

    def disturb(self, *, enabled: int, overflows: int, below_wrap: int) -> None:
        """Put the counters into a state that a reset may leave: `below_wrap` counts before they wrap, with these
        counters enabled, and these reported to have wrapped.
        """
        self._enabled, self._overflows = enabled & self._bits, overflows & self._bits
        self._cycles = (1 << 48) - below_wrap
        self._events = [(1 << 32) - below_wrap] * self._counters

    def read(self, name: str) -> int | None:
        """Return a register's value, or None when the PMU has no register called `name`."""
        if name.startswith("PMEVCNTR"):
            return self._events[int(name[-1])]
        values = {
            "PMCR": self._control | self._counters << 11,
            "PMCNTENSET": self._enabled,
            "PMCNTENCLR": self._enabled,
            "PMOVSSET": self._overflows,
            "PMOVSCLR": self._overflows,
            "PMINTSET": 0,
            "PMINTCLR": 0,
            "PMCCNTR_LO": self._cycles & 0xFFFFFFFF,
            "PMCCNTR_HI": self._cycles >> 32,
        }
        return values.get(name)

    def write(self, name: str, value: int) -> None:
        """Write a register. Raises Unmodelled."""
        if name == "PMCR":
            if value & _GATED:
                raise Unmodelled("PMCR.mask_en is set: counting gated by the command stream is not modelled")
            if value & _RESET_EVENTS:
                self._events = [0] * self._counters
            if value & _RESET_CYCLES:
                self._cycles = 0
            self._control = value & _ENABLE
        elif name == "PMCCNTR_LO":
            self._cycles = self._cycles & ~0xFFFFFFFF | value
        elif name == "PMCCNTR_HI":
            self._cycles = self._cycles & 0xFFFFFFFF | (value & 0xFFFF) << 32
        elif name.startswith("PMEVCNTR"):
            self._events[int(name[-1])] = value
        else:
            self._write_mask(name, value)

    def check(self, stored: Mapping[str, int]) -> None:
        """Refuse, before the job, start and stop events of the cycle counter that are not modelled.

        Raises Unmodelled.
        """
        start, stop = stored["PMCCNTR_CFG"] & 0x3FF, stored["PMCCNTR_CFG"] >> 16
        counted = self._control & _ENABLE and self._enabled & CYCLE_COUNTER
        if counted and (start not in (_NO_EVENT, _NPU_ACTIVE) or stop not in (_NO_EVENT, _NPU_IDLE)):
            raise Unmodelled(
                f"PMCCNTR_CFG starts the cycle counter with event {start} and stops it with {stop}; "
                f"modelled are {_NPU_ACTIVE} (NPU active) and {_NPU_IDLE} (NPU idle), or neither"
            )

    def count(self, execution: Execution, stored: Mapping[str, int]) -> None:
        """Add a job's cycles and events. Raises Unmodelled."""
        if not self._control & _ENABLE:
            return
        if self._enabled & CYCLE_COUNTER:
            cycles = self._cycles + execution.cycles
            if cycles >> 48:
                self._overflows |= CYCLE_COUNTER
            self._cycles = cycles & (1 << 48) - 1
        for index in range(self._counters):
            if not self._enabled >> index & 1:
                continue
            event = stored[f"PMEVTYPER{index}"]
            counted = 0 if event == _NO_EVENT else execution.events.get(event)
            if counted is None:
                raise Unmodelled(f"PMEVTYPER{index} selects PMU event {event}, which is not modelled")
            count = self._events[index] + counted
            if count >> 32:
                self._overflows |= 1 << index
            self._events[index] = count & 0xFFFFFFFF

    def _write_mask(self, name: str, value: int) -> None:
        if value & ~self._bits:
            raise Unmodelled(f"0x{value:x} is written to {name}, whose bits are 0x{self._bits:x}")
        if name == "PMINTSET" and value:
            raise Unmodelled("PMINTSET: interrupts of the NPU's PMU are not modelled")
        if name == "PMCNTENSET":
            self._enabled |= value
        elif name == "PMCNTENCLR":
            self._enabled &= ~value
        elif name == "PMOVSSET":
            self._overflows |= value
        elif name == "PMOVSCLR":
            self._overflows &= ~value
