"""Corstone-300: SSE-300 on Arm's MPS3.

Sources: ExecuTorch's Corstone-300.ld and Zephyr's mps3_corstone300 device trees (memories, UART, NPU and its interrupt;
where AN547 and AN552 differ in a size, the smaller one, and the other as `most`), Arm's core_platform,
targets/corstone-300 (timing adapters), the notes AN547 and AN552 (clocks), ExecuTorch's runner_utils.py and run_fvp.sh
(FVPs and their instance paths), lines of real FVPs' lists of parameters in Kwon-GiHwan/mps4_prototyping_board,
docs/paper/platform_sensitivity/probe_raw/fvp_inventory.json (MACs of an FVP by default).

Where the board's controller writes to: images.txt of the same kit, scripts/mps3/sse-300; TF-M's README of AN547 has the
same address for the BRAM.
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
    name="corstone-300",
    number=300,
    summary="SSE-300 on MPS3, Cortex-M55",
    boot=0x10000000,
    cpu_hz=32_000_000,
    peripheral_hz=25_000_000,
    memories=(
        Memory(0x10000000, 512 * KIB, 0x00000000, name="ITCM"),
        Memory(0x11000000, 1 * MIB, 0x01000000, name="BRAM", npu=True, most=2 * MIB),
        Memory(0x30000000, 512 * KIB, 0x20000000, name="DTCM"),
        Memory(0x31000000, 2 * MIB, 0x21000000, name="SRAM", npu=True, most=4 * MIB),
        Memory(0x60000000, 2048 * MIB, name="DDR", npu=True),
    ),
    npus=(
        NpuChoice(U55, (32, 64, 128, 256), 128, Fvp("FVP_Corstone_SSE-300_Ethos-U55", *_PATHS)),
        NpuChoice(U65, (256, 512), 256, Fvp("FVP_Corstone_SSE-300_Ethos-U65", *_PATHS)),
    ),
    npu_registers=Window(0x58102000, 0x1000, 0x48102000),
    npu_irq=56,
    timing_adapters=Window(0x58103000, 0x1000, 0x48103000),
    timing_adapter_ports=(0x58103000, 0x58103200),
    uarts=(Window(0x59303000, 0x1000, 0x49303000),),
    firmware=FirmwareBoard(
        name="corstone300",
        port="corstone",
        driver="u55",
        boot="ITCM",
        code="ITCM",
        data="DTCM",
        stack="DTCM",
        pool="SRAM",
        package=Window(0x70000000, 256 * MIB),
    ),
    virtual=True,
    card=ImageCard(
        "AN547 or AN552",
        "AUTO",
        8,
        (
            CardWindow(0x10000000, 512 * KIB, 0x00000000, controller=0x00000000),
            CardWindow(0x11000000, 1 * MIB, 0x01000000, controller=0x02000000),
            # How large these two are is what fits between them.
            CardWindow(0x60000000, 64 * MIB, controller=0x08000000),
            CardWindow(0x70000000, 64 * MIB, controller=0x0C000000),
        ),
    ),
)
