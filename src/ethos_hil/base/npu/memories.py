"""The memories around an NPU, and the timing adapters that stand for them on FVPs and on Arm's FPGA boards."""

from __future__ import annotations

from dataclasses import dataclass

AdapterSettings = tuple[int, int, int, int, int, int, int]
"""What the firmware sets a timing adapter to, in the order of `TimingAdapter` (firmware/npu/timing_adapter.h)."""


@dataclass(frozen=True, slots=True)
class Port:
    """A memory behind an AXI port.

    Attributes:
        rate: bytes per NPU cycle, both directions together, on average over `window`.
        burst: most bytes that a transaction moves.
        read_latency, write_latency: cycles until the first byte, or the answer.
        reads, writes: transactions that can be under way.
        ports: AXI ports that lead to it.
        window: cycles for which the budget of bytes is: `rate` times as many pass at the bus's speed. 0 for no budget
            ahead.
    """

    rate: float
    burst: int
    read_latency: int
    write_latency: int
    reads: int
    writes: int
    ports: int = 1
    window: int = 0

    def adapter(self, on: int, off: int, words: int) -> AdapterSettings:
        """Return the timing adapter that stands for it. Its budget is `words` of the bus in `on` + `off` cycles."""
        return self.reads, self.writes, self.read_latency, self.write_latency, on, off, words


@dataclass(frozen=True, slots=True)
class MemorySystem:
    """The memories behind ports 0 and 1.

    Attributes:
        name: Vela's name of the system configuration.
        ports: the memories.
        beat: bytes of a port's data bus.
        clock: of the NPU, in Hz.
    """

    name: str
    ports: tuple[Port, Port]
    beat: int
    clock: float
