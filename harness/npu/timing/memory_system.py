"""The memories around an NPU: which port reaches which region, and how fast.

Numbers are those of the system configurations in Vela's Arm/vela.ini; a memory's clock scale and ports give its bytes
per cycle of the NPU. Ports are 8 bytes wide on Ethos-U55, 16 on U65 and U85 (ethosu/vela/architecture_features.py).

On an FVP and on Arm's FPGA boards a timing adapter stands for the memory. It has a budget of words for a window of
cycles, as Arm's ML Embedded Evaluation Kit sets it up (scripts/cmake/timing_adapter, 26.03). Where its other numbers
differ from Vela's of the same name, the adapter's are used, because they are what FVPs were run with
(`Family.adapted`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ethos_hil.base.npu.family import Family, MemorySystem, Port
from ethos_hil.lowering.vela.ini import MemoryArea, SystemConfiguration

DEFAULT_PORTS: Mapping[int, int] = {0: 1}  # port 1 for constants, port 0 for everything else
# Regions: 0 constants, 1 arena, 2 fast scratch. By memory mode of Arm/vela.ini: the regions behind port 1.
MODES: Mapping[str, Mapping[int, int]] = {
    "Sram_Only": {},
    "Shared_Sram": {0: 1},
    "Dedicated_Sram": {0: 1, 1: 1},
}


def memory_system(system: SystemConfiguration, family: Family) -> MemorySystem:
    """Return the memories that a section of Vela's configuration file describes, around an NPU."""
    beat = family.system.beat
    areas = (system.axi0, system.axi1)
    first, second = (_port(area, beat, family.adapted.get((system.name, at), {})) for at, area in enumerate(areas))
    return MemorySystem(system.name, (first, second), beat, system.core_clock)


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
