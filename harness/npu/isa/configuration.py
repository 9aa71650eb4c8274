"""The properties that distinguish one Ethos-U from another.

Sources: CONFIG and ID words from the driver actions that Vela 5.1 puts before its command streams; micro-blocks, cores
and SHRAM of Ethos-U55 and U65 from Vela's public estimator (ethosu/vela/architecture_features.py); weight decoders of
Ethos-U85 from its streams, which name one, two or four.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ethos_hil.base.errors import UsageError


class Generation(Enum):
    """A command stream's dialect: registers, scaling, order of weights, internal memory."""

    U55 = "Ethos-U55"
    U65 = "Ethos-U65"
    U85 = "Ethos-U85"


@dataclass(frozen=True)
class Configuration:
    """One Ethos-U, as synthesised.

    Attributes:
        name: as Vela and ExecuTorch spell it.
        generation: the command stream's dialect it understands.
        macs: 8-bit multiply-accumulates per cycle, of all cores.
        internal_bytes: internal memory that DMA reaches: one core's SHRAM, or the look-up tables of an Ethos-U85.
        config_word: the CONFIG register.
        id_word: the ID register.
        cores: cores of an Ethos-U65, each with its own weights; weight decoders of an Ethos-U85.
        ublock: height, width (positions) and depth (channels) of the OFM micro-block that one core works on in a cycle;
            on Ethos-U85 each operation chooses height and width.
        ifm_ublock_depth: IFM channels that one cycle works on.
    """

    name: str
    generation: Generation
    macs: int
    internal_bytes: int
    config_word: int
    id_word: int
    cores: int
    ublock: tuple[int, int, int]
    ifm_ublock_depth: int = 8

    @property
    def lut_base(self) -> int:
        """Internal address of the look-up tables: the last 2 KB."""
        return self.internal_bytes - 2048

    @classmethod
    def parse(cls, name: str) -> Configuration:
        """Return the configuration called `name`, e.g. "ethos-u55-128". Raises UsageError with the valid names."""
        for configuration in CONFIGURATIONS:
            if configuration.name == name:
                return configuration
        valid = ", ".join(c.name for c in CONFIGURATIONS)
        raise UsageError(f"the functional NPU cannot be an {name!r}", hint=f"it can be one of {valid}")

    def __str__(self) -> str:
        return self.name


U55_ID = 0x10066001  # architecture 1.0.6; Vela writes it for Ethos-U65 as well
U85_ID = 0x20007000


def _u55(macs: int, shram_kb: int, ublock: tuple[int, int, int]) -> Configuration:
    word = macs.bit_length() - 1 | shram_kb << 8
    return Configuration(f"ethos-u55-{macs}", Generation.U55, macs, shram_kb << 10, word, U55_ID, 1, ublock)


def _u65(cores: int) -> Configuration:
    macs, shram_kb = 256 * cores, 48
    word = macs.bit_length() - 1 | shram_kb * cores << 8 | 1 << 28
    return Configuration(f"ethos-u65-{macs}", Generation.U65, macs, shram_kb << 10, word, U55_ID, cores, (2, 2, 8))


def _u85(macs: int, decoders: int, word: int, ublock: tuple[int, int, int]) -> Configuration:
    return Configuration(f"ethos-u85-{macs}", Generation.U85, macs, 2048, word, U85_ID, decoders, ublock)


CONFIGURATIONS = (
    _u55(32, 16, (1, 1, 4)),
    _u55(64, 16, (1, 1, 8)),
    _u55(128, 24, (1, 2, 8)),
    _u55(256, 48, (2, 2, 8)),
    _u65(1),
    _u65(2),
    _u85(128, 1, 0x20000117, (1, 2, 8)),
    _u85(256, 1, 0x20000118, (2, 2, 8)),
    _u85(512, 2, 0x20001119, (2, 2, 16)),
    _u85(1024, 4, 0x2000251A, (2, 2, 32)),
    _u85(2048, 4, 0x2000261B, (4, 4, 16)),
)
