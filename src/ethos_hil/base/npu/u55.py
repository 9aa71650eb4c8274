"""Ethos-U55.

Sources: CONFIG and ID words from the driver actions that Vela 5.1 puts before its command streams; micro-blocks, SHRAM
and the rates of the output stage from Vela's public estimator (ethosu/vela/architecture_features.py); registers from
Arm's core driver (ethosu55_interface.h). Read buffers are fitted to published runs of an FVP.
"""

from __future__ import annotations

from ethos_hil.base.npu.family import CommandSet, Family, MemorySystem, ModelError, OutputRatesU55, Port, Size

# Weights and scales come in single bursts: with one under way, rnnoise's time for its flash follows the latency as
# published (harness/npu/timing/schedule.py).
_BUFFERS = {"dma": 256.0, "weights": 128.0, "scales": 128.0}
_SRAM = Port(8.0, 32, 32, 32, 8, 8, window=4000)
_FLASH = Port(1.0, 128, 64, 0, 2, 0, window=400)
LIMITED_CHANNELS = {8: 32, 16: 16, 32: 32}

U55 = Family(
    name="u55",
    product=0,
    id_word=0x10066001,  # architecture 1.0.6
    sizes=(
        Size(
            32, 0x1005, 16 << 10, (1, 1, 4), OutputRatesU55(2.0, 3.0, 3.0, 3.0, 6.0, 1.0, 2.0, 1.0), _BUFFERS,
            accumulator_delay=(3, 7), pool_bits=32, shares_tables=True,
        ),
        Size(
            64, 0x1006, 16 << 10, (1, 1, 8), OutputRatesU55(1.0, 1.5, 1.5, 1.5, 3.0, 0.5, 1.0, 1.0), _BUFFERS,
            accumulator_delay=(2, 3), shares_tables=True,
        ),
        Size(
            128, 0x1807, 24 << 10, (1, 2, 8), OutputRatesU55(0.75, 1.25, 0.75, 0.75, 1.5, 0.25, 0.5, 1.0), _BUFFERS,
            accumulator_delay=(2, 3),
        ),
        Size(
            256, 0x3008, 48 << 10, (2, 2, 8), OutputRatesU55(0.625, 1.125, 0.5, 0.375, 0.75, 0.125, 0.25, 1.0),
            _BUFFERS, lanes=16,
        ),
    ),
    usual_macs=128,
    system=MemorySystem("Ethos_U55_High_End_Embedded", (_SRAM, _FLASH), 8, 500e6),
    memory_mode="Shared_Sram",
    tosa="u55",
    clocks={"Ethos_U55_Deep_Embedded": 200e6, "Ethos_U55_High_End_Embedded": 500e6},
    adapted={("Ethos_U55_High_End_Embedded", 0): {"reads": (4, 8), "writes": (4, 8)}},
    arena_anywhere=False,  # all of vela.ini's systems with an Ethos-U55 have flash behind port 1
    command_set=CommandSet.U55,
    transfers=1,
    driver="u55",
    pmu_base=0,
    event_counters=4,
    registers={0x40 + 4 * i: (f"AXI_LIMIT{i}", 0x0F1F00F3) for i in range(4)},
    adapters=(_SRAM.adapter(3999, 1, 4000), _FLASH.adapter(320, 80, 50)),
    weights_ahead=False,
    matmul_channels=LIMITED_CHANNELS,
    held_out=ModelError(9, 0.010, 0.059, "vww u55-64"),
    rule_errors={
        "copy": (1, 0.012, 0.012),
        "depth-first": (9, 0.004, -0.028),
        "depthwise": (7, 0.009, -0.056),
        "output": (9, 0.022, -0.077),
        "part-kernel": (5, 0.004, -0.042),
        "port": (9, 0.014, -0.07),
    },
)  # fmt: skip
