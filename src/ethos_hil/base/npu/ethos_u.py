"""The Ethos-U that a model is compiled for and runs on: a family, in one of its sizes."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.family import Family, Size
from ethos_hil.base.plain_text import did_you_mean


def _families() -> tuple[Family, ...]:
    """Return the family of each file of this folder that is called after one: `U55` of u55.py."""
    names = [file.name for file in pkgutil.iter_modules([str(Path(__file__).parent)])]
    files = [importlib.import_module(f"{__package__}.{name}") for name in names if re.fullmatch(r"u\d+", name)]
    families: list[Family] = [getattr(file, file.__name__.rpartition(".")[2].upper()) for file in files]
    return tuple(sorted(families, key=lambda family: family.product))


FAMILIES = _families()
_TABLES = 2048


@dataclass(frozen=True, repr=False)
class EthosU:
    """An Ethos-U as Vela names it: `ethos-<family>-<MACs per cycle>`.

    Attributes:
        family: all that its family has in common.
        size: the rest.
    """

    family: Family
    size: Size

    @classmethod
    def all(cls) -> tuple[EthosU, ...]:
        """Return all that there are, by family, the smallest first."""
        return tuple(cls(family, size) for family in FAMILIES for size in family.sizes)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all that there are."""
        return tuple(npu.name for npu in cls.all())

    @classmethod
    def usual(cls) -> tuple[EthosU, ...]:
        """Return the one of each family that tests are compiled for if no other is asked for."""
        return tuple(cls.parse(f"ethos-{family}-{family.usual_macs}") for family in FAMILIES)

    @classmethod
    def parse(cls, text: str) -> EthosU:
        """Return the NPU called `text`. Raises UsageError, which lists the names."""
        name = text.strip().lower()
        for npu in cls.all():
            if npu.name == name:
                return npu
        suggestion = did_you_mean(name, cls.names())
        raise UsageError(
            f"{text!r} is not an Ethos-U configuration", hint=f"{suggestion}valid: {', '.join(cls.names())}"
        )

    @classmethod
    def from_config_word(cls, word: int) -> EthosU:
        """Return the NPU that a command stream was compiled for. Raises UsageError when the word names none.

        `word` is the payload's CONFIG expectation (bits 0-3 log2 MACs per cycle, bits 28-31 product).
        """
        for npu in cls.all():
            if npu.matches(word):
                return npu
        raise UsageError(
            f"the command stream's config word 0x{word:08x} names no known Ethos-U (product {word >> 28}, "
            f"{1 << (word & 0xF)} MACs)",
            hint=f"known: {', '.join(cls.names())}",
        )

    def matches(self, config_word: int) -> bool:
        """Return whether a command stream with this config word was compiled for this NPU."""
        return config_word >> 28 == self.family.product and 1 << (config_word & 0xF) == self.macs

    @property
    def macs(self) -> int:
        """8-bit multiply-accumulates per cycle."""
        return self.size.macs

    @property
    def name(self) -> str:
        """The name, for example "ethos-u55-128"."""
        return f"ethos-{self.family}-{self.macs}"

    @property
    def lut_base(self) -> int:
        """Internal address of the look-up tables: the last 2 KB."""
        return self.size.internal_bytes - _TABLES

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the name alone."""
        return EthosU.parse, (self.name,)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


def family_of(product: int) -> Family | None:
    """Return the family whose number in CONFIG, bits 28-31, is `product`; None where there is none."""
    return next((family for family in FAMILIES if family.product == product), None)


def family_named(name: str) -> Family | None:
    """Return the family of an NPU that is called `name`, such as "ethos-u55-128"; None for others."""
    return next((family for family in FAMILIES if name.startswith(f"ethos-{family}-")), None)
