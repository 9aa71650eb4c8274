"""The memories around an NPU: which port reaches which region, and how fast.

Numbers are those of the system configurations in Vela's Arm/vela.ini, the ones that ExecuTorch compiles for by default;
a memory's clock scale and ports give its bytes per cycle of the NPU. Ports are 8 bytes wide on Ethos-U55, 16 on U65 and
U85 (ethosu/vela/architecture_features.py).

Ethos-U85 keeps what it has asked for in buffers, one for each of its readers; a memory that answers late is slower for
it than its bandwidth says. Their sizes, and the 0.8 that ports and bandwidth can be used to, are from regor's
estimator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from harness.npu.configuration import Configuration, Generation

DEFAULT_PORTS: Mapping[int, int] = {0: 1}  # constants come through port 1, everything else through port 0
# Regions: 0 constants, 1 arena, 2 fast scratch. Memory modes of Arm/vela.ini: the ports of those behind port 1.
MODES: Mapping[str, Mapping[int, int]] = {
    "Sram_Only": {},
    "Shared_Sram": {0: 1},
    "Dedicated_Sram": {0: 1, 1: 1},
}
USABLE = 0.8
BUFFER_WORD = 16  # bytes


class Reader(IntEnum):
    """What reads through a buffer of its own on Ethos-U85, in the order of BUFFERS."""

    TRANSFER = 0
    STREAMED_IFM = 1  # of elementwise operations and resizes, and the second one of a matrix product
    WEIGHTS = 2
    FAST_WEIGHTS = 3
    IFM = 4
    SCALES = 5


BUFFERS = {
    128: (64, 64, 128, 128, 104, 16),
    256: (104, 104, 128, 128, 128, 16),
    512: (128, 128, 256, 256, 128, 16),
    1024: (256, 256, 416, 208, 256, 16),
    2048: (256, 256, 512, 256, 256, 16),
}  # by MACs, in words


@dataclass(frozen=True, slots=True)
class Port:
    """A memory behind an AXI port.

    Attributes:
        rate: bytes per NPU cycle.
        burst: bytes a transaction moves at most.
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
class System:
    """What is behind ports 0 and 1.

    Attributes:
        name: Vela's.
        ports: the memories.
        beat: bytes of a port's data bus.
        clock: of the NPU, in Hz.
    """

    name: str
    ports: tuple[Port, Port]
    beat: int
    clock: float


SYSTEMS = {
    Generation.U55: System(
        "Ethos_U55_High_End_Embedded",
        (Port(8.0, 32, 32, 32, 4, 4), Port(1.0, 128, 64, 0, 2, 0)),
        8,
        500e6,
    ),
    Generation.U65: System(
        "Ethos_U65_High_End",
        (Port(16.0, 32, 32, 32, 16, 16), Port(3.75, 128, 500, 250, 24, 12)),
        16,
        1e9,
    ),
    Generation.U85: System(
        "Ethos_U85_SYS_DRAM_Mid",
        (Port(32.0, 64, 32, 32, 8, 8, ports=2), Port(12.0, 128, 500, 250, 64, 32)),
        16,
        1e9,
    ),
}


def read_rate(port: Port, reader: Reader, configuration: Configuration) -> float:
    """Bytes per cycle that a reader gets from a memory."""
    if configuration.generation is not Generation.U85:
        return port.rate
    buffered = BUFFERS[configuration.macs][reader] / max(port.burst // BUFFER_WORD, 1)
    return _limited(port, min(buffered, port.reads * port.ports * USABLE), port.read_latency)


def write_rate(port: Port, configuration: Configuration) -> float:
    """Bytes per cycle that a memory takes."""
    if configuration.generation is not Generation.U85 or not port.writes:
        return port.rate
    return _limited(port, port.writes * port.ports * USABLE, port.write_latency)


def _limited(port: Port, under_way: float, latency: int) -> float:
    return min(port.rate, port.burst * under_way / latency * USABLE)
