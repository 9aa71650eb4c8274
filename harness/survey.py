"""The check of a model against a target, without running anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.image.inputs import InputFile
from ethos_hil.harness.image.preflight import FAIL, Destination, examine
from ethos_hil.harness.progress import Reporter, Silent
from ethos_hil.harness.request import RunRequest
from ethos_hil.harness.run import Runner, describe
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model import ProgramFile, load_model
from ethos_hil.lowering.named_model import lower_named
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.lowering.placement import Placement
from ethos_hil.lowering.progress import Progress
from ethos_hil.lowering.vela_options import VelaSetup
from ethos_hil.results.record import Check, TargetInfo


@dataclass(frozen=True)
class Survey:
    """The checks, the target that they are for, and what of the model is on the NPU and what is not."""

    target: TargetInfo
    checks: tuple[Check, ...]
    placement: Placement = field(default_factory=Placement)

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.status != FAIL for check in self.checks)


def survey(request: RunRequest, *, reporter: Reporter | None = None) -> Survey:
    """Lower a model, or take a .pte as it is, and check it against a target, without running anything.

    A .pte for another NPU or memory mode raises no error: the checks report it.

    Args:
        request: as for `ethos_hil.harness.run.run`.
        reporter: receives the progress.

    Raises:
        UsageError, ToolError: as `ethos_hil.harness.run.run`.
    """
    reporter = reporter or Silent()
    npu, setup = request.npu_name, request.setup
    request.check_numbers()
    board = make_target(request.target, npu)
    firmware = Firmware.read(find_firmware(board.soc)) if request.runner is None else None
    if request.runner is not None:
        Runner.read(request.runner)
    given = InputFile.read(request.inputs) if isinstance(request.inputs, Path) else request.inputs
    what = f"Lowering {request.label} for {npu}"
    reporter.stage(what)
    artifact = _artifact(request, npu, setup, lambda text: reporter.stage(f"{what}: {text}"))
    artifact = artifact.of(request.method)
    sets = given.input_sets(artifact.plan.input_tensors) if isinstance(given, InputFile) else given
    place = Destination(str(npu), board.soc, firmware)
    checks = examine(
        artifact,
        place,
        Footprint.of(artifact),
        input_sets=1 if sets is None else len(sets),
        asked=None if setup is None else setup.mode,
        delegation=request.delegation,
    )
    return Survey(describe(board), checks, artifact.placement)


def _artifact(request: RunRequest, npu: NpuName, setup: VelaSetup | None, progress: Progress) -> Artifact:
    source = request.model
    if isinstance(source, str) and not source.lower().endswith(".pte"):
        return lower_named(
            source,
            npu,
            vela=setup,
            scheme=request.scheme,
            as_upstream=request.as_upstream,
            leave=request.leave,
            trust=request.trust_model,
            progress=progress,
        ).artifact
    if isinstance(source, str):
        source = load_model(source, trust=request.trust_model)
    if isinstance(source, ProgramFile):
        return lower(source, Artifact.of_program(source.data, source.label).npu or npu, leave=request.leave)
    return lower(
        source,
        npu,
        vela=setup,
        scheme=request.scheme,
        as_upstream=request.as_upstream,
        leave=request.leave,
        progress=progress,
    )
