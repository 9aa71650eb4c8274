"""Corstone-320: SSE-320 on Arm's MPS4.

Sources: ExecuTorch's Corstone-320.ld and Zephyr's mps4_corstone320 device trees (memories, NPU and its interrupt,
clock), Arm's core_platform, targets/corstone-320 (timing adapters), ExecuTorch's runner_utils.py and run_fvp.sh (the
FVP, its instance paths and parameters), Arm's ml-embedded-evaluation-kit, docs/sections/deployment.md (MACs by
default). About the UART's address sources disagree: 0x59303000 according to CMSIS and to code that runs on an MPS4,
0x58203000 according to Zephyr's device tree and Arm's board support package.

Where the board's controller writes to: images.txt of Kwon-GiHwan/mps4_prototyping_board, from a board in use, and Arm's
learning path zephyr_cs320_mps4. The kit's images.txt for SSE-320 has port 1 for the boot memory as well.
"""

from __future__ import annotations

from ethos_hil.base.npu.u85 import U85
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

_BOARD = "mps4_board"

SOC = Soc(
    name="corstone-320",
    number=320,
    summary="SSE-320 on MPS4, Cortex-M85",
    boot=0x11000000,
    cpu_hz=25_000_000,
    peripheral_hz=25_000_000,
    memories=(
        Memory(0x10000000, 32 * KIB, 0x00000000, name="ITCM"),
        Memory(0x11000000, 128 * KIB, 0x01000000, name="BROM", read_only=True),
        # The virtual board lacks it, so the firmware does without. Whether the NPU reaches it is not established.
        Memory(0x12000000, 2 * MIB, 0x02000000, name="FPGA SRAM"),
        Memory(0x30000000, 32 * KIB, 0x20000000, name="DTCM"),
        Memory(0x31000000, 4 * MIB, 0x21000000, name="SRAM", npu=True),
        Memory(0x60000000, 2048 * MIB, name="DDR", npu=True),
    ),
    npus=(
        NpuChoice(
            U85,
            (128, 256, 512, 1024, 2048),
            256,
            Fvp(
                "FVP_Corstone_SSE-320",
                f"{_BOARD}.subsystem.cpu0",
                f"{_BOARD}.subsystem.ethosu",
                _BOARD,
                settings=(("vis_hdlcd.disable_visualisation", "1"),),
                runner_settings=((f"{_BOARD}.uart0.unbuffered_output", "1"), (f"{_BOARD}.uart0.shutdown_on_eot", "1")),
            ),
        ),
    ),
    npu_registers=Window(0x50004000, 0x2000, 0x40004000),
    npu_irq=16,
    timing_adapters=Window(0x50006000, 0x1000, 0x40006000),
    timing_adapter_ports=(0x50006000, 0x50006800),
    uarts=(Window(0x59303000, 0x1000, 0x49303000), Window(0x58203000, 0x1000, 0x48203000)),
    firmware=FirmwareBoard(
        name="corstone320",
        port="corstone",
        driver="u85",
        boot="BROM",  # too small for all of the code
        code="SRAM",
        data="SRAM",
        stack="DTCM",
        pool="SRAM",
        package=Window(0x70000000, 256 * MIB),
    ),
    virtual=True,
    card=ImageCard(
        "FI101",
        "RAM",
        8,
        (
            CardWindow(0x11000000, 128 * KIB, controller=0x11000000, port=2),
            CardWindow(0x12000000, 2 * MIB, controller=0x12000000, port=1),
            CardWindow(0x31000000, 4 * MIB, controller=0x31000000, port=1),
            CardWindow(0x60000000, 2048 * MIB, controller=0x60000000, port=1),
        ),
    ),
)
