"""How fast the firmware gets onto a board, by a first run of a tiny program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.boards.loadable import ResidentFirmware
from ethos_hil.harness.targets.contract import contract_programs
from ethos_hil.harness.targets.registry import make_target

_SECONDS = 300.0


@dataclass(frozen=True)
class FirmwareLoad:
    """How the firmware was loaded.

    Attributes:
        size: its bytes; all of them were written, and read back.
        seconds: from the start of the probe's program, where one is started, to the start of the firmware.
    """

    size: int
    seconds: float

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.size / self.seconds


def load_firmware(file: Path, npu: str) -> FirmwareLoad:
    """Run a tiny program on a board that has no firmware yet, and compare its outputs with the reference.

    Args:
        file: the board's file.
        npu: its NPU.

    Raises:
        EthosHilError: what a run raises.
        AssertionError: an output differs.
    """
    target = make_target(f"board:{file}", EthosU.parse(npu))
    tiny = contract_programs(npu)[0]
    image = tiny.image(target.soc)
    target.load(image)
    outcome = target.run(timeout=_SECONDS)
    for run in outcome.runs:
        tiny.check(run)
    size = sum(len(data) for _, data in ResidentFirmware.of(image.elf).parts)
    return FirmwareLoad(size, outcome.seconds["load"])
