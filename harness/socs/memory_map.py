"""Where an image and data can be on a virtual board: QEMU's memories, and those of the SoC that QEMU lacks."""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.harness.socs.fvps import Fvp


@dataclass(frozen=True)
class Memory:
    """A memory at `base`, its secure alias, of `size` bytes; secure code reaches it there only."""

    name: str
    base: int
    size: int

    def holds(self, address: int, size: int) -> bool:
        """Whether it has all of `size` bytes at `address`."""
        return any(
            base <= address and address + size <= base + self.size for base in (self.base, self.base - _SECURE_ALIAS)
        )


_SECURE_ALIAS = 0x10000000

MEMORIES = (
    Memory("ITCM", 0x10000000, 512 << 10),
    Memory("boot memory", 0x11000000, 2 << 20),
    Memory("DTCM", 0x30000000, 512 << 10),
    Memory("SRAM", 0x31000000, 4 << 20),
    Memory("QSPI flash", 0x38000000, 8 << 20),
)
"""Of QEMU's mps3-an547 (its `info mtree`)."""
DDR = range(0x60000000, 0xE0000000)

_ABSENT = {
    "corstone-300": (),
    "corstone-320": (Memory("FPGA SRAM", 0x12000000, 2 << 20),),
}
"""What the SoC has and QEMU's machine does not (Zephyr, mps4_corstone320_fvp.dts)."""


def missing(address: int, size: int, model: Fvp) -> str | None:
    """Why `size` bytes at `address` are in no memory of the virtual board, or None when they are in one."""
    if (address in DDR and address + size <= DDR.stop) or any(memory.holds(address, size) for memory in MEMORIES):
        return None
    for memory in _ABSENT[model.soc]:
        if any(base <= address < base + memory.size for base in (memory.base, memory.base - _SECURE_ALIAS)):
            return f"{model.soc} has its {memory.name} there, which the virtual board lacks"
    for memory in MEMORIES:
        for base in (memory.base, memory.base - _SECURE_ALIAS):
            if base <= address < base + memory.size:
                return f"they run past the end of the {memory.name} at 0x{base + memory.size:08x}"
    return "there is no memory"
