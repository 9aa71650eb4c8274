"""The registers of a processor as a GDB server numbers them: from its target description, or as GDB did before there
were any.

The GDB manual has descriptions in its appendix "Target Descriptions". A register without a number has the one behind
the register before it, over all files of the description in the order in which they are included.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable

from ethos_hil.base.dataclasses import dataclass

_MOST_FILES = 64
_MOST_REGISTERS = 4096
_INCLUDE = "include"
_OTHER_NAMES = {"sp": ("sp", "r13", "msp"), "lr": ("lr", "r14"), "pc": ("pc", "r15"), "xpsr": ("xpsr", "psr", "cpsr")}
"""What servers call the registers that the loader needs, the best first. After a reset, sp is msp."""


class DescriptionError(Exception):
    """A target description cannot be used. The message says why."""


@dataclass(frozen=True)
class RspRegister:
    """A register.

    Attributes:
        name: the server's, in small letters.
        number: the server's.
        bits: its size.
    """

    name: str
    number: int
    bits: int

    @property
    def size(self) -> int:
        """Its bytes. OpenOCD has registers of one bit."""
        return (self.bits + 7) // 8


@dataclass(frozen=True)
class RegisterTable:
    """The registers that a server has, by their numbers.

    Attributes:
        registers: they, in the order of their numbers.
    """

    registers: tuple[RspRegister, ...]

    def find(self, name: str) -> RspRegister | None:
        """Return the register of a name, or None."""
        wanted = name.lower()
        by_name = {register.name: register for register in self.registers}
        return next((by_name[name] for name in _OTHER_NAMES.get(wanted, (wanted,)) if name in by_name), None)


UNDESCRIBED = RegisterTable(
    (*(RspRegister(f"r{number}", number, 32) for number in range(16)), RspRegister("cpsr", 25, 32))
)
"""GDB's own numbers for Arm, for servers without a description (gdb/arch/arm.h: ARM_PS_REGNUM)."""


def described_registers(read: Callable[[str], bytes]) -> RegisterTable:
    """Return the registers of a server's description.

    Args:
        read: returns one of its files, by name.

    Raises:
        DescriptionError: it is not XML, includes itself, or has no register or too many.
    """
    registers: dict[int, RspRegister] = {}
    following = 0
    for element in _elements("target.xml", read, []):
        try:
            number = int(element.get("regnum", str(following)), 0)
            bits = int(element.get("bitsize", "32"), 0)
        except ValueError as error:
            raise DescriptionError(f"it has a register with the number {element.get('regnum')!r}") from error
        if number < 0 or not 0 < bits <= 1024 or len(registers) == _MOST_REGISTERS:
            raise DescriptionError(f"it has a register {number} of {bits} bits, after {len(registers)} others")
        registers[number] = RspRegister(element.get("name", "").lower(), number, bits)
        following = number + 1
    if not registers:
        raise DescriptionError("it has no register")
    return RegisterTable(tuple(registers[number] for number in sorted(registers)))


def _elements(name: str, read: Callable[[str], bytes], seen: list[str]) -> list[ET.Element]:
    """Return the `reg` elements of a file, and of those that it includes, in their order."""
    if name in seen or len(seen) == _MOST_FILES:
        raise DescriptionError(f"its files include one another without end: {name!r}")
    seen.append(name)
    text = read(name)
    if b"<!ENTITY" in text:
        raise DescriptionError(f"{name} has entities, which no description needs")
    try:
        # A file may have the prefix "xi" without saying whose it is, as QEMU's does.
        root = ET.fromstring(text.replace(b"<xi:include", b"<include").replace(b"</xi:include", b"</include"))
    except (ET.ParseError, ValueError, LookupError) as error:  # the others are of its encoding
        raise DescriptionError(f"{name} is not XML: {error}") from error
    registers: list[ET.Element] = []
    for element in root.iter():
        if element.tag.rpartition("}")[2] == _INCLUDE and element.get("href"):
            registers += _elements(str(element.get("href")), read, seen)
        elif element.tag == "reg":
            registers.append(element)
    return registers
