"""QEMU's machine mps3-an547: its memories and devices, and what the host serves where a system has more.

The machine is a Corstone-300 (SSE-300 on AN547). It serves as other systems as well: the processor and the memories
that images use are at the same addresses, and what is elsewhere (the NPU in any case) is intercepted.
"""

from __future__ import annotations

from ethos_hil.harness.socs.soc import KIB, MIB, Memory, Soc, Window

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
"""Where there are devices, besides the processor's own."""
UART0 = Window(0x59303000, 0x1000, 0x49303000)
TIMING_ADAPTERS = Window(0x58103000, 0x1000, 0x48103000)
"""Registers that read as zero and ignore writes."""
RESETTABLE_DEVICES = (UART0, TIMING_ADAPTERS)
"""Devices that programs may use: UART0, which a reset restores, and the timing adapters, which have no state."""


def extra_uarts(soc: Soc) -> tuple[Window, ...]:
    """Return the windows of UART 0 in `soc` where the machine has no UART."""
    return tuple(uart for uart in soc.uarts if uart != UART0)


def absent_devices(soc: Soc) -> tuple[Window, ...]:
    """Return the windows of devices that a board may leave out, where the machine would fault."""
    return () if soc.timing_adapters == TIMING_ADAPTERS else (soc.timing_adapters,)


def intercepted(soc: Soc) -> tuple[Window, ...]:
    """Return all windows that the host serves for `soc`."""
    return (soc.npu_registers, *extra_uarts(soc), *absent_devices(soc))


def missing(address: int, size: int, soc: Soc) -> str | None:
    """Return why `size` bytes at `address` are in no memory of the virtual board, or None where they are in one."""
    memories = (*RAMS, FLASH, DDR)
    if any(memory.holds(address, size) for memory in memories):
        return None
    for memory in soc.memories:
        if memory.offset_of(address) is not None and not any(
            other.offset_of(memory.base) is not None for other in memories
        ):
            return f"{soc.name} has its {memory.name} there, which the virtual board lacks"
    for memory in (*RAMS, FLASH):
        for base in memory.bases:
            if base <= address < base + memory.size:
                return f"they run past the end of the {memory.name} at 0x{base + memory.size:08x}"
    return "there is no memory"
