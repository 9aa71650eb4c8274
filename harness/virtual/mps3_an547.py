"""QEMU's machine mps3-an547: its memories and devices, and what the host serves where a system has more.

The machine is a Corstone-300 (SSE-300 on AN547). It serves as other systems as well: the processor and the memories
that images use are at the same addresses, and what is elsewhere (the NPU in any case) is intercepted.

What a system has at other addresses a plug-in of QEMU changes (address_map.c), by functions that QEMU 7.2 exports and
does not document. So only two kinds of runs get it: a foreign program that has bytes in a memory that the machine
lacks, and a strict board, where a device that the system lacks must not answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.harness.socs.soc import KIB, MIB, Memory, Soc, Window
from ethos_hil.harness.virtual.plugin import Plugin

MACHINE = "mps3-an547"
SECURE_ALIAS = 0x10000000
"""Outside of the DDR, secure code reaches all of the machine that much higher than other code does."""
DDR = Memory(0x60000000, 2048 * MIB, name="DDR")
"""The machine insists on this size."""
RAMS = (
    Memory(0x10000000, 512 * KIB, 0x00000000, name="ITCM"),
    Memory(0x11000000, 2 * MIB, 0x01000000, name="boot memory"),
    Memory(0x30000000, 512 * KIB, 0x20000000, name="DTCM"),
    Memory(0x31000000, 4 * MIB, 0x21000000, name="SRAM"),
)
"""All other RAM of the machine (its `info mtree`)."""
FLASH = Memory(0x38000000, 8 * MIB, 0x28000000, name="QSPI flash")
DEVICES = range(0x40000000, 0x60000000)
"""Where there are devices, apart from the processor's own."""
UART0 = Window(0x59303000, 0x1000, 0x49303000)
TIMING_ADAPTERS = Window(0x58103000, 0x1000, 0x48103000)
INITSVTOR = 0x10000000
"""Where the processor finds its vector table, and VTOR points, after a reset."""
INITSVTOR_REGISTER = 0x58021110
"""Of the system control: that address. No reset changes it."""
UNIMPLEMENTED = (Window(0x58102000, 0x1000, 0x48102000), TIMING_ADAPTERS)
"""Registers that read as zero and ignore writes: where a Corstone-300 has its NPU and the timing adapters."""

_CORTEX_M85 = {Window(0xE000ED00, 4): {0: 0x411FD230}}
"""The processor's CPUID: a Cortex-M85 r1p0."""
_CONSTANTS: Mapping[str, Mapping[Window, Mapping[int, int]]] = {
    "corstone-310": _CORTEX_M85,
    "corstone-320": {
        Window(0x58200000, 0x3000, 0x48200000): {},  # the FPGA's own registers: clocks, identity, LEDs, buttons
        Window(0x50310000, 0x1000, 0x40310000): {0x000: 0x1CDC0000},  # HDLCD: VERSION
        **_CORTEX_M85,
    },
}
"""By system: windows, and their registers that are not zero, by offset.

Sources: Arm's runners that mlia-ethos-u 0.1.0 ships ask for these, and continue with these answers;
Arm's names of the addresses, from CMSIS's headers of SSE-320.
"""


def addable(soc: Soc) -> tuple[Memory, ...]:
    """Return the memories of `soc` that the machine lacks; they can be added (harness/virtual/mps3_an547.py)."""
    there = (*RAMS, FLASH, DDR)
    return tuple(area for area in soc.memories if not any(other.offset_of(area.base) is not None for other in there))


def constants(soc: Soc) -> Mapping[Window, Mapping[int, int]]:
    """Return devices of `soc` that the machine lacks and foreign programs ask for: registers that never change.

    All others of their registers read as zero, and writes are ignored.
    """
    return _CONSTANTS.get(soc.name, {})


def missing(address: int, size: int, soc: Soc) -> str | None:
    """Return why `size` bytes at `address` are in no memory of the virtual board, or None where they are in one.

    A memory that can be added counts as one.
    """
    memories = (*RAMS, FLASH, DDR, *addable(soc))
    if any(memory.holds(address, size) for memory in memories):
        return None
    for memory in (*RAMS, FLASH, *addable(soc)):
        for base in memory.bases:
            if base <= address < base + memory.size:
                return f"they run past the end of the {memory.name} at 0x{base + memory.size:08x}"
    return "there is no memory"


def memory_needed(places: Iterable[tuple[int, int]], soc: Soc) -> Memory | None:
    """Return the memory of `soc` to add for a program, or None.

    Args:
        places: address and bytes of all that the program has or reads.
        soc: the system.

    Raises:
        TargetNotAvailable: it needs several; the plug-in adds one.
    """
    wanted = list(places)
    memories = [area for area in addable(soc) if any(area.holds(address, size) for address, size in wanted)]
    if len(memories) > 1:
        names = " and ".join(area.name for area in memories)
        raise TargetNotAvailable(f"the program needs {names} of {soc.name}; one memory can be added to QEMU's machine")
    return memories[0] if memories else None


def changed_map(added: Memory | None, absent: Sequence[Window]) -> Plugin | None:
    """Return the plug-in that adds a memory and takes devices away, or None where there is nothing to change."""
    if added is not None:
        purpose = "the memory that the program needs is added to QEMU"
    elif absent:
        purpose = "devices that the strict board lacks are taken from QEMU"
    else:
        return None
    # The machine shows other code's addresses to secure code too.
    places = [*(("ram", added) for _ in range(added is not None)), *(("absent", window) for window in absent)]
    return Plugin(
        "address_map",
        purpose,
        tuple(f"{kind}={min(window.bases):#x}:{window.size:#x}" for kind, window in places if window is not None),
    )
