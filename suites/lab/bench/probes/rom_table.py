"""What a debugger finds out about the system: a ROM table with one entry, and the identity of the component that it
names, the System Control Space of a Cortex-M55.

CoreSight Architecture Specification (ARM IHI 0029): the formats of the entries and of the identity registers.
"""

from __future__ import annotations

BASE = 0xE00FF000
SCS = 0xE000E000
PAGE = 0x1000
PRESENT_32_BIT = 0b11
_ARM = 0x43B
"""The JEP106 code of Arm, with the bit that says that it is one."""
_DEVARCH, _DEVTYPE = 0xFBC, 0xFCC
_PIDR4, _PIDR0, _CIDR0 = 0xFD0, 0xFE0, 0xFF0
_CLASS_ROM, _CLASS_CORESIGHT = 1, 9
_ARMV8M_SCS = 0x47702A04
"""DEVARCH of an Armv8-M System Control Space."""
_CORTEX_M55 = 0xD22


def _identity(part: int, component_class: int) -> dict[int, int]:
    """Return the identity registers of a component of Arm's, by their offsets."""
    return {
        _PIDR4: 4,
        _PIDR0: part & 0xFF,
        _PIDR0 + 4: (_ARM & 0xF) << 4 | part >> 8,
        _PIDR0 + 8: 1 << 3 | _ARM >> 4 & 7,
        _CIDR0: 0x0D,
        _CIDR0 + 4: component_class << 4,
        _CIDR0 + 8: 0x05,
        _CIDR0 + 12: 0xB1,
    }


WORDS = {
    BASE: (SCS - BASE) & 0xFFFFF000 | PRESENT_32_BIT,
    BASE + _DEVTYPE: 0,
    **{BASE + offset: value for offset, value in _identity(0x4D4, _CLASS_ROM).items()},
    SCS + _DEVARCH: _ARMV8M_SCS,
    SCS + _DEVTYPE: 0,
    **{SCS + offset: value for offset, value in _identity(_CORTEX_M55, _CLASS_CORESIGHT).items()},
}
"""The words, by their addresses."""
