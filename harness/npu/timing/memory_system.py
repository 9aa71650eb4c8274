"""The memories around an NPU: which port reaches which region, and how fast.

Numbers are those of the system configurations in Vela's Arm/vela.ini; a memory's clock scale and ports give its bytes
per cycle of the NPU. Ports are 8 bytes wide on Ethos-U55, 16 on U65 and U85 (ethosu/vela/architecture_features.py).

On an FVP and on Arm's FPGA boards a timing adapter stands for the memory. It has a budget of words for a window of
cycles, as Arm's ML Embedded Evaluation Kit sets it up (scripts/cmake/timing_adapter, 26.03). Where its other numbers
differ from Vela's of the same name, the adapter's are used, because they are what FVPs were run with (`ADAPTED`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ethos_hil.harness.npu.isa.configuration import Generation
from ethos_hil.lowering.vela.ini import MemoryArea, SystemConfiguration

DEFAULT_PORTS: Mapping[int, int] = {0: 1}  # port 1 for constants, port 0 for everything else
# Regions: 0 constants, 1 arena, 2 fast scratch. By memory mode of Arm/vela.ini: the regions behind port 1.
MODES: Mapping[str, Mapping[int, int]] = {
    "Sram_Only": {},
    "Shared_Sram": {0: 1},
    "Dedicated_Sram": {0: 1, 1: 1},
}


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

    @classmethod
    def of(cls, system: SystemConfiguration, generation: Generation) -> MemorySystem:
        """Return the memories that a section of Vela's configuration file describes, around an NPU."""
        beat = BEATS[generation]
        areas = (system.axi0, system.axi1)
        first, second = (_port(area, beat, ADAPTED.get((system.name, at), {})) for at, area in enumerate(areas))
        return cls(system.name, (first, second), beat, system.core_clock)


def _port(area: MemoryArea, beat: int, adapted: Mapping[str, tuple[int, int]]) -> Port:
    port = Port(
        area.clock_scale * beat * area.ports_used,
        area.burst_length,
        area.read_latency,
        area.write_latency,
        area.max_reads,
        area.max_writes,
        area.ports_used,
        WINDOWS[area.name],
    )
    # A section of the user's with Arm's name and other numbers keeps them.
    others = {name: there for name, (here, there) in adapted.items() if getattr(port, name) == here}
    return replace(port, **others)


WINDOWS: Mapping[str, int] = {"Sram": 4000, "Dram": 5000, "OnChipFlash": 400, "OffChipFlash": 400}
"""Cycles of an adapter's window (PULSE_ON + PULSE_OFF), by Vela's name of the memory."""
ADAPTED: Mapping[tuple[str, int], Mapping[str, tuple[int, int]]] = {
    ("Ethos_U55_High_End_Embedded", 0): {"reads": (4, 8), "writes": (4, 8)},
    ("Ethos_U85_SYS_DRAM_Low", 1): {"read_latency": (500, 250), "write_latency": (250, 125)},
}
"""What adapters have otherwise than Vela's section, by its name and port: Vela's number, and the adapter's."""
BEATS: Mapping[Generation, int] = {Generation.U55: 8, Generation.U65: 16, Generation.U85: 16}
"""Bytes of a port's data bus (ethosu/vela/architecture_features.py)."""
SYSTEMS = {
    Generation.U55: MemorySystem(
        "Ethos_U55_High_End_Embedded",
        (Port(8.0, 32, 32, 32, 8, 8, window=4000), Port(1.0, 128, 64, 0, 2, 0, window=400)),
        8,
        500e6,
    ),
    Generation.U65: MemorySystem(
        "Ethos_U65_High_End",
        (Port(16.0, 32, 32, 32, 16, 16, window=4000), Port(3.75, 128, 500, 250, 24, 12, window=5000)),
        16,
        1e9,
    ),
    Generation.U85: MemorySystem(
        "Ethos_U85_SYS_DRAM_Mid",
        (Port(32.0, 64, 32, 32, 8, 8, ports=2, window=4000), Port(12.0, 128, 500, 250, 64, 32, window=5000)),
        16,
        1e9,
    ),
}
