"""Corstone-310: SSE-310 on Arm's MPS3.

Sources: Zephyr's mps3_corstone310 device trees (memories, NPU and its interrupt, UART) and board.cmake (where the
processor starts from), CMSIS's system_SSE310MPS3.c (clocks), Arm's ml-embedded-evaluation-kit,
docs/sections/deployment.md (instance paths), lines of both FVPs' lists of parameters in
Kwon-GiHwan/mps4_prototyping_board, docs/paper/platform_sensitivity/probe_raw/fvp_inventory.json (MACs by default),
MLIA's backend/corstone/performance.py (the FVPs, and that their NPU has no timing adapters).

Where the board's controller writes to: TF-M's README of AN555, which was tried on an MPS3. The kit's images.txt for
SSE-310 has other addresses, those of AN547.
"""

from __future__ import annotations

from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.npu.u65 import U65
from ethos_hil.harness.socs.soc import (
    KIB,
    MIB,
    CardWindow,
    FirmwareBoard,
    Fvp,
    ImageCard,
    Memory,
    NpuChoice,
    Soc,
    Window,
)

_PATHS = ("cpu0", "ethosu", "mps3_board")

SOC = Soc(
    name="corstone-310",
    number=310,
    summary="SSE-310 on MPS3, Cortex-M85",
    boot=0x11000000,
    cpu_hz=32_000_000,
    peripheral_hz=25_000_000,
    memories=(
        Memory(0x10000000, 32 * KIB, 0x00000000, name="ITCM"),
        # Whether the NPU reaches it is not established.
        Memory(0x11000000, 2 * MIB, 0x01000000, name="BRAM"),
        Memory(0x30000000, 32 * KIB, 0x20000000, name="DTCM"),
        Memory(0x31000000, 4 * MIB, 0x21000000, name="SRAM", npu=True),
        Memory(0x60000000, 2048 * MIB, name="DDR", npu=True),
    ),
    npus=(
        NpuChoice(U55, (32, 64, 128, 256), 256, Fvp("FVP_Corstone_SSE-310", *_PATHS)),
        NpuChoice(U65, (256, 512), 256, Fvp("FVP_Corstone_SSE-310_Ethos-U65", *_PATHS)),
    ),
    npu_registers=Window(0x50004000, 0x1000, 0x40004000),
    npu_irq=16,
    uarts=(Window(0x59303000, 0x1000, 0x49303000),),
    firmware=FirmwareBoard(
        name="corstone310",
        port="corstone",
        driver="u55",
        boot="BRAM",
        code="BRAM",
        data="BRAM",
        stack="DTCM",
        pool="SRAM",
        package=Window(0x70000000, 256 * MIB),
    ),
    virtual=True,
    card=ImageCard(
        "AN555",
        "RAM",
        12,
        (
            CardWindow(0x11000000, 2 * MIB, 0x01000000, controller=0x010011000000),
            # Not in TF-M's text; by the same rule.
            CardWindow(0x60000000, 2048 * MIB, controller=0x010060000000),
        ),
    ),
)
