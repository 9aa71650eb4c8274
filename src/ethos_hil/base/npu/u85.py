"""Ethos-U85.

Sources: CONFIG and ID words from the driver actions that Vela 5.1 puts before its command streams, whose streams name
one, two or four weight decoders; memories, read buffers and rates of regor (ethos_u85.cpp,
ethos_u85_performance.cpp); registers from Arm's core driver (ethosu85_interface.h).
"""

from __future__ import annotations

from ethos_hil.base.npu.family import (
    WEIGHTS_USED,
    CommandSet,
    Family,
    MemorySystem,
    ModelError,
    OutputRatesU85,
    Port,
    Size,
)

_COPIED = 0.55  # of their buffer is under way, because they write from it at the same time; fitted
_WORD = 16


def _buffers(dma: int, stream: int, weights: int, ifm: int) -> dict[str, float]:
    """Return the read buffers, of regor's sizes in words (`channelRBs`). Those of scales are the same on all sizes."""
    words = {"dma": dma * _COPIED, "stream": stream, "weights": weights * WEIGHTS_USED, "ifm": ifm, "scales": 16}
    return {purpose: number * _WORD for purpose, number in words.items()}


_TABLES = 2048
_SRAM = Port(32.0, 64, 32, 32, 8, 8, ports=2, window=4000)
_DRAM = Port(12.0, 128, 500, 250, 64, 32, window=5000)
_LIMITS = 0x31F3F  # outstanding reads and writes, length of bursts

U85 = Family(
    name="u85",
    product=2,
    id_word=0x20007000,
    sizes=(
        Size(
            128, 0x20000117, _TABLES, (1, 2, 8), OutputRatesU85(0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 0.5, 1.0),
            _buffers(64, 64, 128, 104), accumulator_delay=(2, 3), shallow=16, ifm_bytes=8 << 10,
        ),
        Size(
            256, 0x20000118, _TABLES, (2, 2, 8), OutputRatesU85(0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 0.25, 0.5),
            _buffers(104, 104, 128, 128), shallow=16, ifm_bytes=16 << 10,
        ),
        Size(
            512, 0x20001119, _TABLES, (2, 2, 16), OutputRatesU85(0.125, 0.125, 0.25, 0.5, 0.25, 0.25, 0.125, 0.25),
            _buffers(128, 128, 256, 128), decoders=2, lanes=16, ifm_bytes=16 << 10,
        ),
        Size(
            1024, 0x2000251A, _TABLES, (2, 2, 32), OutputRatesU85(0.0625, 0.125, 0.25, 0.5, 0.125, 0.25, 0.0625, 0.125),
            _buffers(256, 256, 416, 256), decoders=4, lanes=32, ifm_bytes=16 << 10,
        ),
        Size(
            2048, 0x2000261B, _TABLES, (4, 4, 16),
            OutputRatesU85(0.03125, 0.0625, 0.125, 0.25, 0.0625, 0.125, 0.0625, 0.0625),
            _buffers(256, 256, 512, 256), decoders=4, lanes=16, ifm_bytes=32 << 10,
        ),
    ),
    usual_macs=256,
    system=MemorySystem("Ethos_U85_SYS_DRAM_Mid", (_SRAM, _DRAM), 16, 1e9),
    memory_mode="Sram_Only",
    tosa="cf",
    clocks={
        "Ethos_U85_SYS_Flash_Low": 200e6,
        "Ethos_U85_SYS_Flash_High": 500e6,
        "Ethos_U85_SYS_DRAM_Low": 500e6,
        "Ethos_U85_SYS_DRAM_Mid": 1e9,
        "Ethos_U85_SYS_DRAM_High": 1e9,
    },
    adapted={("Ethos_U85_SYS_DRAM_Low", 1): {"read_latency": (500, 250), "write_latency": (250, 125)}},
    several_ports=True,
    command_set=CommandSet.U85,
    transfers=4,
    has_shram=False,
    keeps_results=True,
    fills_borders=False,
    driver="u85",
    pmu_base=0x1000,
    event_counters=8,
    registers={
        0x30: ("COND_STATUS", 0),
        0x38: ("POWER_CTRL", 0x3F),
        0x50: ("AXI_SRAM", _LIMITS),
        0x54: ("AXI_EXT", _LIMITS),
        **{0x40 + 4 * i: (f"MEM_ATTR{i}", 0xF7) for i in range(4)},
    },
    channels={"DMA0_IDX": 6},
    memory_attributes=True,
    adapters=(_SRAM.adapter(3999, 1, 4000), _DRAM.adapter(4000, 1000, 3750)),
    # With any other rule, published runs on large ones take longer than modelled.
    least_overlap=7,
    whole_steps=True,
    flat_ublock=False,
    matmul_channels={8: 64, 16: 64, 32: 32, 64: 64},
    scales_again=True,
    held_out=ModelError(12, 0.047, 0.146, "w2l u85-1024"),
    rule_errors={
        "copy": (1, 0.184, 0.184),
        "depth-first": (14, 0.025, -0.404),
        "depthwise": (19, 0.078, 0.529),
        "inputs": (10, 0.1, -0.157),
        "latency": (26, 0.128, 0.212),
        "output": (10, 0.049, 0.105),
        "part-kernel": (48, 0.103, -0.448),
        "port": (9, 0.091, 0.212),
        "scales": (23, 0.05, -0.226),
        "weights": (38, 0.09, -0.311),
        "writes": (32, 0.094, -0.265),
    },
)  # fmt: skip
