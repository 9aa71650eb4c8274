"""What distinguishes one Ethos-U55 from another.

Sources: CONFIG and ID register layouts from the wheel's register description (ethosu/vela/ethos_u55_regs); micro-block
shapes and SHRAM sizes as published for the four U55 sizes. They agree with MACs = micro-block elements * 8 channels.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.errors import UsageError

U55_ID = 0x10066001  # the architecture version (1.0.6) that Vela 5.1 compiles for, as in the driver header of its blobs
STREAM_VERSION = 0  # CONFIG.cmd_stream_version


@dataclass(frozen=True)
class Configuration:
    """An NPU as synthesised.

    Attributes:
        name: as Vela and ExecuTorch spell it.
        macs: 8-bit multiply-accumulates per cycle.
        shram_bytes: internal memory.
        ublock: height, width (positions) and depth (channels) of the OFM micro-block one cycle works on.
        ifm_ublock_depth: IFM channels one cycle works on.
    """

    name: str
    macs: int
    shram_bytes: int
    ublock: tuple[int, int, int]
    ifm_ublock_depth: int = 8
    id_word: int = U55_ID

    @property
    def config_word(self) -> int:
        """The CONFIG register: log2 of the MACs, stream version, SHRAM in KB, product 0 (U55)."""
        return (self.macs.bit_length() - 1) | STREAM_VERSION << 4 | (self.shram_bytes // 1024) << 8

    @property
    def lut_base(self) -> int:
        """Address in SHRAM of the look-up tables: its last 2 KB."""
        return self.shram_bytes - 2048

    @classmethod
    def parse(cls, name: str) -> Configuration:
        """The configuration called `name`, e.g. "ethos-u55-128"; UsageError lists the valid ones."""
        for configuration in CONFIGURATIONS:
            if configuration.name == name:
                return configuration
        valid = ", ".join(c.name for c in CONFIGURATIONS)
        raise UsageError(f"the functional NPU cannot be an {name!r}", hint=f"it can be one of {valid}")

    def __str__(self) -> str:
        return self.name


CONFIGURATIONS = (
    Configuration("ethos-u55-32", 32, 16 * 1024, (1, 1, 4)),
    Configuration("ethos-u55-64", 64, 16 * 1024, (1, 1, 8)),
    Configuration("ethos-u55-128", 128, 24 * 1024, (1, 2, 8)),
    Configuration("ethos-u55-256", 256, 48 * 1024, (2, 2, 8)),
)
