"""The register blocks of Ethos-U55, U65 and U85: the registers, their offsets, and the bits they have.

Source: the interface headers of Arm's core driver (ethosu55_interface.h, ethosu65_interface.h, ethosu85_interface.h).
All registers read as zero after reset, except STATUS, CMD and those that identify the NPU.
"""

from __future__ import annotations

from collections.abc import Mapping

from ethos_hil.base.npu.family import Family

REGIONS = 8
_WORD = 0xFFFFFFFF
_HIGH_WORD = 0xFF
"""Bits of a 40-bit address in its upper register."""


class RegisterLayout:
    """The register block of one family.

    Attributes:
        names: the registers' names, by offset.
        stored: registers that only hold what was written, and the bits they have.
        channels: STATUS.faulting_channel, by the prefix of the command stream register that faulted.
    """

    def __init__(self, family: Family) -> None:
        counters = range(family.event_counters)
        own = {offset: name for offset, (name, _) in family.registers.items()}
        bits = {name: held for name, held in family.registers.values() if held}
        self.names = _COMMON | _pmu(family.pmu_base, counters) | own
        self.stored = _COMMON_STORED | bits | {f"PMEVTYPER{i}": 0x3FF for i in counters}
        self.channels = {**_CHANNELS, **family.channels}
        self._attributes = family.memory_attributes

    def port_registers(self, selector: int) -> tuple[str, ...]:
        """Return the registers that say what is behind a selector of memory."""
        if self._attributes:
            return (f"MEM_ATTR{selector}", "AXI_SRAM", "AXI_EXT")
        return (f"AXI_LIMIT{selector}",)

    def port(self, stored: Mapping[str, int], selector: int) -> int:
        """Return the AXI port for a two-bit selector from REGIONCFG or QCONFIG: 0 is SRAM, 1 external memory."""
        if self._attributes:
            return stored[f"MEM_ATTR{selector}"] >> 2 & 1
        return selector >> 1


_COMMON = {
    0x00: "ID",
    0x04: "STATUS",
    0x08: "CMD",
    0x0C: "RESET",
    0x10: "QBASE0",
    0x14: "QBASE1",
    0x18: "QREAD",
    0x1C: "QCONFIG",
    0x20: "QSIZE",
    0x24: "PROT",
    0x28: "CONFIG",
    0x3C: "REGIONCFG",
    **{0x80 + 4 * i: f"BASEP{i}" for i in range(2 * REGIONS)},
}
_COMMON_STORED = {
    "QBASE0": _WORD,
    "QBASE1": _HIGH_WORD,
    "QCONFIG": 0x3,
    "QSIZE": _WORD,
    "REGIONCFG": 0xFFFF,
    "PMCCNTR_CFG": 0x03FF03FF,
    **{f"BASEP{i}": _HIGH_WORD if i % 2 else _WORD for i in range(2 * REGIONS)},
}
_CHANNELS = {
    "QBASE": 0,
    "IFM": 1,
    "WEIGHT": 2,
    "SCALE": 3,
    "DMA0_SRC": 4,
    "DMA0_IDX": 4,
    "OFM": 8,
    "DMA0_DST": 9,
}


def _pmu(base: int, counters: range) -> dict[int, str]:
    """Return the PMU's registers; `base` is zero on Ethos-U55 and U65."""
    return {
        base + 0x180: "PMCR",
        base + 0x184: "PMCNTENSET",
        base + 0x188: "PMCNTENCLR",
        base + 0x18C: "PMOVSSET",
        base + 0x190: "PMOVSCLR",
        base + 0x194: "PMINTSET",
        base + 0x198: "PMINTCLR",
        base + 0x1A0: "PMCCNTR_LO",
        base + 0x1A4: "PMCCNTR_HI",
        base + 0x1A8: "PMCCNTR_CFG",
        **{base + 0x300 + 4 * i: f"PMEVCNTR{i}" for i in counters},
        **{base + 0x380 + 4 * i: f"PMEVTYPER{i}" for i in counters},
    }
