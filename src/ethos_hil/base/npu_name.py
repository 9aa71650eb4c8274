"""The name of the NPU that a model is compiled for."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from ethos_hil.base.errors import UsageError

Family = Literal["u55", "u65", "u85"]

_MACS: dict[Family, tuple[int, ...]] = {
    "u55": (32, 64, 128, 256),
    "u65": (256, 512),
    "u85": (128, 256, 512, 1024, 2048),
}
_PRODUCT: dict[Family, int] = {"u55": 0, "u65": 1, "u85": 2}


@dataclass(frozen=True)
class NpuName:
    """An Ethos-U configuration as Vela names it: `ethos-<family>-<MACs per cycle>`.

    The numbers of the config word are those of Vela's driver payload: product in bits 28-31 and log2 of the MAC count
    in bits 0-3.
    """

    family: Family
    macs: int

    VALID: ClassVar[tuple[str, ...]] = tuple(f"ethos-{family}-{m}" for family, sizes in _MACS.items() for m in sizes)

    @classmethod
    def parse(cls, text: str) -> NpuName:
        """Return the NPU called `text`. Raises UsageError, which lists the names."""
        name = text.strip().lower()
        if name not in cls.VALID:
            close = difflib.get_close_matches(name, cls.VALID, n=1)
            suggestion = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"{text!r} is not an Ethos-U configuration",
                hint=f"{suggestion}valid: {', '.join(cls.VALID)}",
            )
        _, family, macs = name.split("-")
        for known in get_args(Family):
            if family == known:
                return cls(known, int(macs))
        raise AssertionError(name)

    @classmethod
    def from_config_word(cls, word: int) -> NpuName:
        """Return the NPU that a command stream was compiled for. Raises UsageError when the word names none.

        `word` is the payload's CONFIG expectation (bits 0-3 log2 MACs per cycle, bits 28-31 product).
        """
        macs = 1 << (word & 0xF)
        for family, product in _PRODUCT.items():
            if product == word >> 28 and macs in _MACS[family]:
                return cls(family, macs)
        raise UsageError(
            f"the command stream's config word 0x{word:08x} names no known Ethos-U (product {word >> 28}, {macs} MACs)",
            hint=f"known: {', '.join(cls.VALID)}",
        )

    def matches(self, config_word: int) -> bool:
        """Return whether a command stream with this config word was compiled for this NPU."""
        return config_word >> 28 == _PRODUCT[self.family] and 1 << (config_word & 0xF) == self.macs

    @property
    def name(self) -> str:
        """The name, for example "ethos-u55-128"."""
        return f"ethos-{self.family}-{self.macs}"

    def __str__(self) -> str:
        return self.name
