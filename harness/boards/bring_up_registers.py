"""What a processor and an NPU say they are, in registers that a debug probe reads.

Sources: Armv8-M Architecture Reference Manual (CPUID, DHCSR, DWT, NVIC), technical reference manuals of Cortex-M55 and
-M85 (part numbers), Arm's core driver, ethosu55_interface.h, ethosu65_interface.h and ethosu85_interface.h (the NPU).
"""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.base.npu.ethos_u import family_of

CPUID = 0xE000ED00
NPU_ID, NPU_STATUS, NPU_CMD, NPU_RESET, NPU_CONFIG = 0x00, 0x04, 0x08, 0x0C, 0x28
NPU_QBASE, NPU_QBASE_HIGH, NPU_QCONFIG, NPU_QSIZE = 0x10, 0x14, 0x1C, 0x20
"""Offsets in the NPU's registers, which are the same in all families."""
IRQ_RAISED, RESETTING = 1 << 1, 1 << 3
"""Bits of STATUS."""
RUN, CLEAR_IRQ = 1 << 0, 1 << 1
"""Bits of CMD. The others, zero here, would allow the NPU's clock and power to be removed."""
PRIVILEGED = 1 << 0
"""For RESET: the NPU is privileged and secure then."""
STOP = 0xFFFF0000
"""A command stream's last word, NPU_OP_STOP with all bits of its mask."""
NVIC_ISPR, NVIC_ICPR, NVIC_WORDS = 0xE000E200, 0xE000E280, 16
"""Pending interrupts, a bit each; writing a bit to ICPR clears it."""
DEMCR, TRCENA = 0xE000EDFC, 1 << 24
DWT_CTRL, CYCCNTENA, NOCYCCNT = 0xE0001000, 1 << 0, 1 << 25
DWT_CYCCNT = 0xE0001004
"""The cycle counter. It has 32 bits, and stands still while a debugger has halted the processor."""

_CORES = {0xD21: "Cortex-M33", 0xD22: "Cortex-M55", 0xD23: "Cortex-M85"}
_ARM = 0x41
_FITS = {"cortex-m55": ("Cortex-M55", "Cortex-M85"), "cortex-m85": ("Cortex-M85",)}
"""The cores that run code that was made for one."""
_SILENT = (0, 0xFFFFFFFF)
_STATES = {0: "C_DEBUGEN", 16: "S_REGRDY", 17: "S_HALT", 18: "S_SLEEP", 19: "S_LOCKUP", 20: "S_SDE"}


@dataclass(frozen=True)
class CpuIdentity:
    """A processor's CPUID.

    Attributes:
        word: the register.
    """

    word: int

    @property
    def core(self) -> str:
        """Its name, "" for one that is not known."""
        return _CORES.get(self.word >> 4 & 0xFFF, "") if self.word >> 24 == _ARM else ""

    def runs(self, cpu: str) -> bool:
        """Return whether it runs code made for `cpu`, as GCC spells it."""
        return self.core in _FITS.get(cpu, (cpu.title(),))

    def __str__(self) -> str:
        name = self.core or "an unknown processor"
        return f"{name} r{self.word >> 20 & 0xF}p{self.word & 0xF} (CPUID 0x{self.word:08x})"


@dataclass(frozen=True)
class NpuIdentity:
    """An NPU's ID and CONFIG.

    Attributes:
        id_word, config_word: the registers.
    """

    id_word: int
    config_word: int

    @property
    def answers(self) -> bool:
        """Whether there is an NPU at all: neither is all zeros or all ones."""
        return self.id_word not in _SILENT and self.config_word not in _SILENT

    @property
    def name(self) -> str:
        """Its configuration, such as "ethos-u55-128"."""
        product = self.config_word >> 28
        family = family_of(product)
        return f"{f'ethos-{family}' if family else f'product {product}'}-{1 << (self.config_word & 0xF)}"

    @property
    def words(self) -> str:
        """The registers, for a message."""
        return f"ID 0x{self.id_word:08x}, CONFIG 0x{self.config_word:08x}"

    def __str__(self) -> str:
        major, minor, patch = self.id_word >> 28, self.id_word >> 20 & 0xFF, self.id_word >> 16 & 0xF
        return f"{self.name}, architecture {major}.{minor}.{patch} ({self.words})"


def halting_state(dhcsr: int) -> str:
    """Return the names of the bits that are set in DHCSR."""
    return " ".join(name for bit, name in _STATES.items() if dhcsr >> bit & 1) or "none"
