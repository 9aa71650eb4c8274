"""The systems on chip that the virtual board can be: where the NPU, its interrupt and its memories are.

QEMU's machine is a Corstone-300 (SSE-300 on AN547). It serves as a Corstone-320 as well: the processor, the memories
and the UART that images use are at the same addresses, and what is elsewhere (the NPU) is intercepted in any case.

Addresses: the linker scripts and target descriptions of ExecuTorch and Zephyr (mps3_corstone300_fvp,
mps4_corstone320_fvp) and Arm's core_platform.
"""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.harness.npu.isa.configuration import Configuration, Generation

SECURE_ALIAS = 0x10000000
"""What lies at an address can be reached that much higher as well, by secure code."""


@dataclass(frozen=True)
class Ram:
    """A RAM behind the NPU's AXI ports. `size` in bytes; reachable at `base` and at its secure alias."""

    name: str
    base: int
    size: int


@dataclass(frozen=True)
class Window:
    """Addresses that the host serves in place of QEMU. `base` is the secure alias, `size` in bytes."""

    base: int
    size: int

    @property
    def bases(self) -> tuple[int, int]:
        """Of both aliases, the non-secure one first."""
        return self.base - SECURE_ALIAS, self.base


@dataclass(frozen=True)
class Soc:
    """A system on chip.

    Attributes:
        name: as targets report it.
        generations: of the NPUs it can have.
        vectors: address of the vector table that the processor starts from.
        npu: the NPU's registers.
        irq: number of its interrupt.
        rams: RAMs that the NPU reaches, besides the DDR. The processor's TCMs are not among them.
        uart: a UART that QEMU has nothing for, or None.
        absent: windows where nothing answers: reads give zero, writes are ignored.
    """

    name: str
    generations: tuple[Generation, ...]
    vectors: int
    npu: Window
    irq: int
    rams: tuple[Ram, ...]
    uart: Window | None = None
    absent: tuple[Window, ...] = ()

    @property
    def windows(self) -> tuple[Window, ...]:
        """All that the host serves."""
        return (self.npu, *(() if self.uart is None else (self.uart,)), *self.absent)


CORSTONE_300 = Soc(
    name="corstone-300",
    generations=(Generation.U55, Generation.U65),
    vectors=0x10000000,
    npu=Window(0x58102000, 0x1000),
    irq=56,
    rams=(Ram("BRAM", 0x01000000, 1 << 20), Ram("SRAM", 0x21000000, 2 << 20)),
)
CORSTONE_320 = Soc(
    name="corstone-320",
    generations=(Generation.U85,),
    vectors=0x11000000,
    npu=Window(0x50004000, 0x2000),
    irq=16,
    rams=(Ram("SRAM", 0x21000000, 4 << 20),),
    # Zephyr and Arm's board support package have it here; CMSIS has the one that QEMU knows, 0x59303000.
    uart=Window(0x58203000, 0x1000),
    # The NPU's timing adapters. Those of a Corstone-300 read as zero in QEMU itself.
    absent=(Window(0x50006000, 0x1000),),
)
SOCS = (CORSTONE_300, CORSTONE_320)


def soc_for(configuration: Configuration) -> Soc:
    """The system on chip that has this NPU."""
    return next(soc for soc in SOCS if configuration.generation in soc.generations)
