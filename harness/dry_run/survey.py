"""What is known of a model before anything boots: checks against a target, and a packed image."""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import Question
from ethos_hil.base.record import Check, TargetInfo
from ethos_hil.harness.ask.lower_question import check_question, lower_question
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.image.npu_time_limit import npu_time_limit
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.image.preflight import FAIL, Destination, check_firmware, examine, raise_if_failed
from ethos_hil.harness.run import Runner, image_of
from ethos_hil.harness.socs.registry import find_soc, virtual_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.terminal.progress import Reporter, Silent
from ethos_hil.harness.verdict.artifact_info import info
from ethos_hil.harness.verdict.findings import describe
from ethos_hil.harness.verdict.run_data import RunData
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.model.torch_model import load_model
from ethos_hil.lowering.program.program_file import ProgramFile
from ethos_hil.lowering.vela.options import VelaSetup


@dataclass(frozen=True)
class Survey:
    """The checks, the target that they are for, and the program."""

    target: TargetInfo
    checks: tuple[Check, ...]
    artifact: Artifact

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
    if question.runner is not None:
        Runner.read(question.runner)  # one that cannot be read is an error before the model is lowered
    data = RunData.read(question)
    what = f"Lowering {question.label} for {npu}"
    reporter.stage(what)
    asked = question
    if question.is_program or isinstance(question.model, ProgramFile):  # for another NPU raises no error here
        program = load_model(question.model, ptd=question.ptd) if isinstance(question.model, str) else question.model
        assert isinstance(program, ProgramFile)
        compiled_for = Artifact.of_program(program.data, program.label, program.ptd).npu or npu
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
    return Survey(describe(board), checks, artifact)


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
