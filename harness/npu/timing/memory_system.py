"""The memories around an NPU: which port reaches which region, and how fast.

Numbers are those of the system configurations in Vela's Arm/vela.ini that ExecuTorch compiles for by default; a
memory's clock scale and ports give its bytes per cycle of the NPU. Ports are 8 bytes wide on Ethos-U55, 16 on U65 and
U85 (ethosu/vela/architecture_features.py).

Vela's estimator for Ethos-U85 also slows a memory with a long latency below its bandwidth, for lack of buffers. This
model does not: with that rule, ExecuTorch's pruning example on ethos-u85-128 would take 149,000 cycles to read its 507
KiB of weights, while published FVP runs took 97,000 to 99,000 in total; without it, reading takes 86,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ethos_hil.harness.npu.isa.configuration import Generation
from ethos_hil.lowering.vela_ini import MemoryArea, SystemConfiguration

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
        rate: bytes per NPU cycle.
        burst: most bytes that a transaction moves.
        read_latency, write_latency: cycles until the first byte, or the answer.
        reads, writes: transactions that can be under way.
        ports: AXI ports that lead to it.
    """

    rate: float
    burst: int
    read_latency: int
    write_latency: int
    reads: int
    writes: int
    ports: int = 1


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
        return cls(system.name, (_port(system.axi0, beat), _port(system.axi1, beat)), beat, system.core_clock)


def _port(area: MemoryArea, beat: int) -> Port:
    return Port(
        area.clock_scale * beat * area.ports_used,
        area.burst_length,
        area.read_latency,
        area.write_latency,
        area.max_reads,
        area.max_writes,
        area.ports_used,
    )


BEATS: Mapping[Generation, int] = {Generation.U55: 8, Generation.U65: 16, Generation.U85: 16}
"""Bytes of a port's data bus (ethosu/vela/architecture_features.py)."""
SYSTEMS = {
    Generation.U55: MemorySystem(
        "Ethos_U55_High_End_Embedded",
        (Port(8.0, 32, 32, 32, 4, 4), Port(1.0, 128, 64, 0, 2, 0)),
        8,
        500e6,
    ),
    Generation.U65: MemorySystem(
        "Ethos_U65_High_End",
        (Port(16.0, 32, 32, 32, 16, 16), Port(3.75, 128, 500, 250, 24, 12)),
        16,
        1e9,
    ),
    Generation.U85: MemorySystem(
        "Ethos_U85_SYS_DRAM_Mid",
        (Port(32.0, 64, 32, 32, 8, 8, ports=2), Port(12.0, 128, 500, 250, 64, 32)),
        16,
        1e9,
    ),
}
