"""What is known of a model or a runner before anything boots: checks against a target, and a packed image."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from ethos_hil.base.errors import TargetError, TargetNotAvailable, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Check, TargetInfo
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.ask.lower_question import check_question, lower_question
from ethos_hil.harness.image.elf_lint import Severity, lint, lint_rows
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.image.npu_time_limit import npu_time_limit
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.image.preflight import FAIL, Destination, check_firmware, examine, raise_if_failed
from ethos_hil.harness.image.segments import ElfError
from ethos_hil.harness.run import Runner, image_of
from ethos_hil.harness.socs.registry import find_soc, virtual_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.targets.executor_runner import command_line
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.targets.virtual import boot
from ethos_hil.harness.terminal.progress import Reporter, Silent
from ethos_hil.harness.verdict.artifact_info import info
from ethos_hil.harness.verdict.findings import describe
from ethos_hil.harness.verdict.run_data import RunData
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.mps3_an547 import RAMS
from ethos_hil.harness.virtual.qemu import find_qemu
from ethos_hil.harness.virtual.rules import FOREIGN_BOARD, STRICT_BOARD, Rule
from ethos_hil.harness.virtual.semihosting import Semihosting
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


START_UP = "start-up"
_SECONDS = 5.0
"""A runner without a program ends in a tenth of a second; one that waits for its host does not end."""
_FAULT = re.compile(r"fault", re.IGNORECASE)
_OPEN = (FailureKind.TIMEOUT, FailureKind.UNSUPPORTED)
"""Ends of a boot that say nothing against the runner: it may wait for a host, or use what QEMU does not model."""


def runner_checks(runner: Runner, soc: str, npu: str) -> tuple[Check, ...]:
    """Return what is to be said of a runner for a system on chip with an NPU.

    Raises:
        UsageError: it is not an ELF that a Cortex-M can run.
    """
    try:
        flaws = lint(runner.elf, find_soc(soc), RAMS)
    except ElfError as error:
        raise UsageError(
            f"--runner {runner.path} cannot be loaded: {error}", hint="give the ELF of an arm_executor_runner"
        ) from error
    if any(flaw.severity is Severity.ERROR for flaw in flaws):
        return (*lint_rows(flaws), _row("not booted: see above", "note"))
    return (*lint_rows(flaws), *_boots(runner.elf, find_soc(soc), EthosU.parse(npu)))


def _boots(elf: bytes, soc: Soc, npu: EthosU) -> tuple[Check, ...]:
    """Boot an ELF without a program to run, on the board whose rules `--strict-board` has. Return a row, or two.

    A word of a TCM that is first written in part is a note: what runs before a program may see to the ECC.
    """
    if not soc.virtual:
        text = f"not booted: the virtual board cannot be a {soc.name}"
        return (_row(text, "note", "run it on the part, which has the last word anyway"),)
    try:
        find_qemu()
        try:
            return (_boot(elf, soc, npu, STRICT_BOARD),)
        except TargetError as error:
            if not error.message.startswith(f"rule {Rule.TCM_ECC} "):
                raise
            note = _row(error.message, "note", "let start-up write whole words there first")
            return (note, _boot(elf, soc, npu, FOREIGN_BOARD))
    except (TargetNotAvailable, UsageError) as error:
        return (_row(f"not booted: {error.message}", "note", error.hint),)
    except TargetError as error:
        return (_row(error.message, "note" if error.kind in _OPEN else "fail", error.hint),)


def _boot(elf: bytes, soc: Soc, npu: EthosU, rules: frozenset[Rule]) -> Check:
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        calls = Semihosting(command_line(0), Path(folder))
        ended = boot(elf, calls, npu, soc, _SECONDS, engine=Engine, rules=rules)
    fault = next((line for line in ended.console if _FAULT.search(line)), None)
    if fault is not None:
        return _row(f"it ends with status {ended.status}: {fault}", "fail")
    return _row(f"it does, and ends with status {ended.status}, as it has no program", "ok")


def _row(available: str, status: str, fix: str | None = None) -> Check:
    return Check(START_UP, "it boots on the strict virtual board", available, status, fix)


@dataclass(frozen=True)
class PackedModel:
    """A model's image, what it was packed from, and sentences about that."""

    image: Image
    artifact: Artifact
    soc: Soc
    notes: tuple[str, ...]


def soc_for(npu: str, name: str | None) -> Soc:
    """Return the system called `name`, by default the first one that has the NPU.

    Raises:
        UsageError: it does not have the NPU.
        ToolError: there is none.
    """
    if name is None:
        return virtual_soc(npu)
    soc = find_soc(name)
    if npu not in soc.npu_names:
        raise UsageError(f"a {name} cannot have an {npu}", hint=f"use one of {', '.join(soc.npu_names)}")
    return soc


def packed_model(
    question: Question, soc: str | None = None, *, stays: bool = False, reporter: Reporter | None = None
) -> PackedModel:
    """Lower a model and pack its image, as a run does before it boots.

    Args:
        question: as for `ethos_hil.harness.run.run`; nothing of it that is about a target or a comparison counts.
        soc: name of the system on chip; by default the first one that has the NPU.
        stays: whether the firmware takes further packages from its line when this one has run.
        reporter: receives the progress.

    Raises:
        UsageError, CompileError, ToolError, TargetError: as `ethos_hil.harness.run.run` before it boots.
    """
    reporter = reporter or Silent()
    check_question(question)
    npu = question.npu_name
    place = soc_for(question.npu, soc)
    firmware = find_firmware(place.name)
    check_firmware(firmware, place.name)
    data = RunData.read(question)
    what = f"Lowering {question.label} for {npu}"
    reporter.stage(what)
    lowering = lower_question(question, progress=lambda text: reporter.stage(f"{what}: {text}"))
    artifact = lowering.artifact.of(question.method)
    repeat = question.repeat or lowering.repeat.get(artifact.method, 1)
    input_sets, remarks = data.of(lowering.source).input_sets(artifact)
    footprint = Footprint.of(artifact)
    destination = Destination(question.npu, place.name, Firmware.read(firmware))
    checks = examine(artifact, destination, footprint, input_sets=len(input_sets), demands=question)
    raise_if_failed(checks, info(artifact))
    reporter.stage("Packing the image")
    limit = npu_time_limit(artifact, question.npu, place, question.timeout, modelled=True)
    image = image_of(artifact, footprint, firmware, input_sets, repeat=repeat, npu_timeout_ms=limit, stays=stays)
    doubt = destination.firmware.doubt if destination.firmware is not None else None
    notes = (*((doubt,) if doubt is not None else ()), *lowering.notes_for(artifact.method), *remarks, *artifact.notes)
    return PackedModel(image, artifact, place, tuple(dict.fromkeys(notes)))
