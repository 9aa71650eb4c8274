"""`ethos-hil preflight`: a model and a target, looked at without running anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.image.inputs import InputFile
from ethos_hil.harness.image.preflight import Destination, examine
from ethos_hil.harness.progress import Reporter
from ethos_hil.harness.run import Runner, describe
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.memory_mode import MemoryMode
from ethos_hil.lowering.model import ProgramFile, load_model
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.results.record import Check, TargetInfo


@dataclass(frozen=True)
class Survey:
    """What was found, and of which target."""

    target: TargetInfo
    checks: tuple[Check, ...]


def survey(
    model: str,
    npu: NpuName,
    target: str,
    memory_mode: str | None,
    runner: Path | None,
    inputs: Path | None,
    method: str | None,
    reporter: Reporter,
) -> Survey:
    """Lower a model, or take a .pte as it is, and check it against a target.

    A .pte for another NPU or memory mode is not refused: that is what the checks are there to say.

    Args:
        model: as on the command line.
        npu: of the target.
        target: its name.
        memory_mode: to compile for, or that a .pte should have.
        runner: the user's own ELF in place of the firmware.
        inputs: an .npz whose input sets are to be packed; one set without it.
        method: as `ethos_hil.harness.run.run` has it.
        reporter: hears of progress.

    Raises:
        UsageError, ToolError: as `ethos_hil.harness.run.run`.
    """
    board = make_target(target, npu)
    firmware = Firmware.read(find_firmware(board.soc)) if runner is None else None
    if runner is not None:
        Runner.read(runner)
    given = None if inputs is None else InputFile.read(inputs)
    mode = None if memory_mode is None else MemoryMode.chosen(memory_mode, npu)
    source = load_model(model)
    reporter.stage(f"Lowering {model} for {npu}")
    if isinstance(source, ProgramFile):
        artifact = lower(source, Artifact.of_program(source.data, source.label).npu or npu)
    else:
        artifact = lower(source, npu, memory_mode=mode)
    artifact = artifact.of(method)
    sets = 1 if given is None else len(given.input_sets(artifact.plan.input_tensors))
    place = Destination(str(npu), board.soc, firmware)
    checks = examine(artifact, place, Footprint.of(artifact), input_sets=sets, asked=mode)
    return Survey(describe(board), checks)
