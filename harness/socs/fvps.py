"""The three FVPs, and where each has its parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fvp:
    """One FVP executable.

    Attributes:
        executable: its name, by which scripts call it.
        soc: name of the virtual board's system on chip.
        npu: its NPU without the MAC count, as Vela spells it.
        macs: MAC counts that NPU has.
        default_macs: the one without `num_macs` (ml-embedded-evaluation-kit, docs/sections/deployment.md).
        cpu_path: instance path of the processor.
        npu_path: of the NPU.
        board_path: of the board's peripherals.
        boot: address of the vector table at reset.
    """

    executable: str
    soc: str
    npu: str
    macs: tuple[int, ...]
    default_macs: int
    cpu_path: str
    npu_path: str
    board_path: str
    boot: int


CORSTONE_300_U55 = Fvp(
    "FVP_Corstone_SSE-300_Ethos-U55", "corstone-300", "ethos-u55", (32, 64, 128, 256), 128,
    "cpu0", "ethosu", "mps3_board", 0x10000000,
)  # fmt: skip
CORSTONE_300_U65 = Fvp(
    "FVP_Corstone_SSE-300_Ethos-U65", "corstone-300", "ethos-u65", (256, 512), 512,
    "cpu0", "ethosu", "mps3_board", 0x10000000,
)  # fmt: skip
CORSTONE_320 = Fvp(
    "FVP_Corstone_SSE-320", "corstone-320", "ethos-u85", (128, 256, 512, 1024, 2048), 256,
    "mps4_board.subsystem.cpu0", "mps4_board.subsystem.ethosu", "mps4_board", 0x11000000,
)  # fmt: skip

MODELS = {model.executable: model for model in (CORSTONE_300_U55, CORSTONE_300_U65, CORSTONE_320)}
