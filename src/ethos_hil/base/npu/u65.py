"""Ethos-U65: as an Ethos-U55-256, with one core or two, on wider ports.

Sources: those of u55.py; the registers are ethosu65_interface.h's. Read buffers are fitted to published runs of an FVP;
each core has buffers for weights and scales of its own.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import (
    WEIGHTS_USED,
    CommandSet,
    Family,
    MemorySystem,
    ModelError,
    OutputRatesU55,
    Port,
    Size,
)
from ethos_hil.base.npu.u55 import LIMITED_CHANNELS

_SHRAM_KIB = 48  # of a core


def _size(cores: int, lanes: int, rates: OutputRatesU55) -> Size:
    macs = 256 * cores
    word = macs.bit_length() - 1 | _SHRAM_KIB * cores << 8 | 1 << 28
    buffers = {"dma": 2048.0, "stream": 1024.0, "ifm": 1024.0,
               "weights": 1536.0 * WEIGHTS_USED * cores, "scales": 256.0 * cores}  # fmt: skip
    return Size(macs, word, _SHRAM_KIB << 10, (2, 2, 8), rates, buffers, cores=cores, lanes=lanes)


_SRAM = Port(16.0, 32, 32, 32, 16, 16, window=4000)
_DRAM = Port(3.75, 128, 500, 250, 24, 12, window=5000)

U65 = Family(
    name="u65",
    product=1,
    id_word=0x10066001,  # as on Ethos-U55: Vela writes it for both
    sizes=(
        _size(1, 16, OutputRatesU55(0.625, 1.125, 0.5, 0.375, 0.75, 0.125, 0.25, 1.0)),
        _size(2, 32, OutputRatesU55(0.3125, 0.5625, 0.25, 0.1875, 0.375, 0.0625, 0.125, 0.5)),
    ),
    usual_macs=256,
    system=MemorySystem("Ethos_U65_High_End", (_SRAM, _DRAM), 16, 1e9),
    memory_mode="Dedicated_Sram_384KB",
    tosa="u55",
    clocks={
        "Ethos_U65_Embedded": 500e6,
        "Ethos_U65_Mid_End": 500e6,
        "Ethos_U65_High_End": 1e9,
        "Ethos_U65_Client_Server": 1e9,
    },
    command_set=CommandSet.U65,
    transfers=2,
    driver="u55",
    pmu_base=0,
    event_counters=4,
    registers={0x40 + 4 * i: (f"AXI_LIMIT{i}", 0x1F3F00F3) for i in range(4)},
    adapters=(_SRAM.adapter(15999, 1, 16000), _DRAM.adapter(4000, 1000, 3750)),
    dedicated_adapters=((8, 8, 32, 32, 3999, 1, 4000), (64, 32, 500, 250, 4000, 1000, 3750)),
    matmul_channels=LIMITED_CHANNELS,
    held_out=ModelError(5, 0.032, 0.191, "rnnoise u65-512"),
    rule_errors={
        "depth-first": (2, 0.018, -0.031),
        "inputs": (2, 0.038, 0.073),
        "latency": (1, 0.16, -0.16),
        "output": (4, 0.024, -0.041),
        "part-kernel": (4, 0.039, -0.114),
        "port": (5, 0.072, -0.16),
        "weights": (2, 0.007, 0.012),
    },
)
