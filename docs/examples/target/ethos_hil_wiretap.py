"""A target for ethos-hil: the virtual board, with all that its UART sends kept in a file for each run.

Where a run fails with kind "link" or "stale-output", the file shows what was really sent:

    ETHOS_HIL_WIRETAP=wires ethos-hil run net.py:net --target wiretap
    python -m ethos_hil_wiretap wires/*.uart
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from ethos_hil.base.errors import TargetError, TargetNotAvailable, ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.frames import FrameDecoder, Text
from ethos_hil.harness.link.outcome import Ended, Outcome, Progress
from ethos_hil.harness.targets.base import Capability, Target
from ethos_hil.harness.targets.plugin import TargetOption, TargetPlugin, TargetSettings
from ethos_hil.harness.targets.virtual import PLUGIN as VIRTUAL
from ethos_hil.harness.targets.virtual import VirtualTarget

FOLDER_VARIABLE = "ETHOS_HIL_WIRETAP"


class WiretapTarget(Target):
    """The virtual board with a tap on its UART. Files are called after the run's id."""

    name = "wiretap"
    kind = "virtual"
    cycle_provenance = "modelled"

    def __init__(self, npu: EthosU, folder: Path, *, strict: bool = False) -> None:
        """The virtual board that has `npu`; files go to `folder`, which is there."""
        self._board = VirtualTarget(npu.name, strict=strict, wire=self._keep)
        self._folder = folder
        self._file: BinaryIO | None = None
        self.npu = npu.name
        self.soc = self._board.soc

    def capabilities(self) -> frozenset[Capability]:
        """Those of the virtual board, but it starts again for every run."""
        return self._board.capabilities() - {Capability.STAYS_UP}

    def _load(self, image: Image) -> None:
        self._board.load(image)

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        path = self._folder / f"{image.run_id.hex()}.uart"
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise TargetNotAvailable(f"{path} cannot be written: {error.strerror}") from error
        return self._board.run(timeout=timeout, progress=progress)

    def _boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
        return self._board.boot(elf, command_line, folder, timeout=timeout)

    def _reset(self) -> None:
        self._board.reset()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _keep(self, data: bytes) -> bytes:
        if self._file is not None:
            self._file.write(data)
        return data


def _find(npu: EthosU) -> ToolError | None:
    """What the virtual board needs, and the folder."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, "."))
    if not folder.is_dir():
        return TargetNotAvailable(f"{folder} is not a folder", hint=f"set {FOLDER_VARIABLE} to a folder that is there")
    return VIRTUAL.find(npu)


def _make(npu: EthosU, settings: TargetSettings) -> WiretapTarget:
    return WiretapTarget(npu, Path(os.environ.get(FOLDER_VARIABLE, ".")), strict=settings.strict)


PLUGIN = TargetPlugin(
    name="wiretap",
    kind="virtual",
    description="the virtual board, its UART kept in a file",
    socs=VIRTUAL.socs,
    npus=VIRTUAL.npus,
    make=_make,
    find=_find,
    options=frozenset({TargetOption.STRICT}),
)


def listing(data: bytes) -> list[str]:
    """What was sent, frame by frame: name and size of its payload, and the text between frames."""
    decoder = FrameDecoder()
    lines: list[str] = []
    try:
        for item in decoder.feed(data):
            lines += item.lines if isinstance(item, Text) else [f"{item.type.name:10} {len(item.payload):6} bytes"]
        for item in decoder.close():
            lines += item.lines
    except TargetError as error:
        lines.append(f"after {decoder.frames} frames: {error.message}")
    return lines


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stdout.write("\n  ".join([name, *listing(Path(name).read_bytes())]) + "\n")
