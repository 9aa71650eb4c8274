"""The check of a model against a target, without running the model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Check, TargetInfo
from ethos_hil.harness.ask.lower_question import check_question, lower_question
from ethos_hil.harness.dry_run.runner_checks import runner_checks
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.image.preflight import FAIL, Destination, examine
from ethos_hil.harness.run import Runner
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.terminal.progress import Reporter, Silent
from ethos_hil.harness.verdict.findings import describe
from ethos_hil.harness.verdict.run_data import RunData
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.model.torch_model import load_model
from ethos_hil.lowering.program.placement import Placement
from ethos_hil.lowering.program.program_file import ProgramFile
from ethos_hil.lowering.vela.options import VelaSetup


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


def survey(question: Question, *, reporter: Reporter | None = None) -> Survey:
    """Lower a model, or take a .pte as it is, and check it against a target, without running it.

    A .pte for another NPU or memory mode raises no error: the checks report it.

    Args:
        question: as for `ethos_hil.harness.run.run`.
        reporter: receives the progress.

    Raises:
        UsageError, ToolError: as `ethos_hil.harness.run.run`.
    """
    reporter = reporter or Silent()
    check_question(question)
    npu = question.npu_name
    setup = VelaSetup.asked(question)
    board = make_target(question.target, npu)
    firmware = Firmware.read(find_firmware(board.soc)) if question.runner is None else None
    of_runner = () if question.runner is None else runner_checks(Runner.read(question.runner), board.soc, question.npu)
    data = RunData.read(question)
    what = f"Lowering {question.label} for {npu}"
    reporter.stage(what)
    asked = question
    if question.is_program or isinstance(question.model, ProgramFile):  # for another NPU raises no error here
        program = load_model(question.model) if isinstance(question.model, str) else question.model
        assert isinstance(program, ProgramFile)
        compiled_for = Artifact.of_program(program.data, program.label).npu or npu
        asked = replace(question, model=program, npu=compiled_for.name, memory_mode=None)
    lowering = lower_question(asked, progress=lambda text: reporter.stage(f"{what}: {text}"))
    artifact = lowering.artifact
    artifact = artifact.of(question.method)
    sets, _ = data.of(lowering.source).input_sets(artifact)
    place = Destination(question.npu, board.soc, firmware)
    checks = examine(
        artifact,
        place,
        Footprint.of(artifact),
        input_sets=len(sets),
        asked=None if setup is None else setup.mode,
        demands=question,
    )
    return Survey(describe(board), (*checks, *of_runner), artifact.placement)


def survey_runner(path: Path, target: str, npu: str) -> Survey:
    """Check a runner against a target, without a model: where there is a virtual board for it, it is booted there.

    Args:
        path: its ELF.
        target, npu: where it is to run.

    Raises:
        UsageError, ToolError: it is not an ELF that a Cortex-M can run, or the target is not there.
    """
    board = make_target(target, EthosU.parse(npu))
    return Survey(describe(board), runner_checks(Runner.read(path), board.soc, npu))
