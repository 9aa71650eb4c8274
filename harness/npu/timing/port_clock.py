"""A port in the course of a program: when the bytes that operations ask for have passed.

Reads and writes each pass at the bus's speed at most, or as fast as the bursts that may be under way allow. Both
together use the memory's budget: `Port.rate` times `Port.window` bytes are there at once, and come again at that rate.
A burst that has begun passes whole: on average the share OVERSHOOT of it goes beyond the budget of its window (fitted;
it matters for flash alone, whose window is 400 cycles).
"""

from __future__ import annotations

import math

from ethos_hil.harness.npu.timing.memory_system import Port

OVERSHOOT = 0.22


class PortClock:
    """One port; it knows until when each direction, and the budget, are used."""

    def __init__(self, port: Port, beat: int) -> None:
        self.port = port
        self._speed = tuple(speed(port, beat, write) for write in (False, True))
        beyond = OVERSHOOT * port.burst / port.window if port.window else 0.0
        self._rate = port.rate + beyond
        self._free = [-math.inf, -math.inf]
        self._earned = -math.inf

    def use(self, time: float, size: float, write: bool) -> float:
        """Return when `size` bytes that are asked for at `time` have passed, without the memory's latency."""
        if not size:
            return time
        self._free[write] = max(self._free[write], time) + size / self._speed[write]
        if math.isinf(self._rate):
            return self._free[write]
        self._earned = max(self._earned, time - self.port.window) + size / self._rate
        return max(self._free[write], self._earned)


def speed(port: Port, beat: int, write: bool) -> float:
    """Return the bytes a cycle of whole bursts, in one direction: what the bus moves, or what can be under way."""
    latency, bursts = (port.write_latency, port.writes) if write else (port.read_latency, port.reads)
    bus = float(beat * port.ports)
    if not latency:
        return bus
    return min(bus, bursts * port.ports * port.burst / (latency + port.burst / beat))
