"""The main job: lower, pack, boot, run, verify, and record everything."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import read_bytes
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import BoardRun, RunnerInfo
from ethos_hil.harness.ask.lower_question import check_question, lower_question
from ethos_hil.harness.ask.place import target_of
from ethos_hil.harness.image.firmware_elf import MOST_ELF, Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint, memory_mode
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.image.npu_time_limit import LEAST_MS, npu_time_limit
from ethos_hil.harness.image.pack import DEFAULT_EVENTS, OWN_CLOCKS, Clocks, Image, RunPlan, pack
from ethos_hil.harness.image.preflight import Destination, check_firmware, examine, raise_if_failed
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.profile.plan import ProfilePlan
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.targets.base import Target
from ethos_hil.harness.targets.executor_runner import RunnerJob, run_program
from ethos_hil.harness.terminal.progress import Reporter, Silent
from ethos_hil.harness.verdict.artifact_info import info, naming_program
from ethos_hil.harness.verdict.findings import Answer, Report, report_of
from ethos_hil.harness.verdict.loss import with_layer
from ethos_hil.harness.verdict.metrics import Stopwatch
from ethos_hil.harness.verdict.model_calls import call_model, require_float_answers
from ethos_hil.harness.verdict.run_data import RunData, check_text, written_text
from ethos_hil.harness.verdict.verify import references_of
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.made_from.named_model import LoweredModel
from ethos_hil.lowering.model import Method
from ethos_hil.lowering.model.torch_model import ProgramFile, TorchModel
from ethos_hil.lowering.native.worker import REFERENCE_MODEL
from ethos_hil.lowering.oracle.reference import ReferenceRun
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.latency import asked_clock, with_latency

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool

_GRID = (
    "the cycle counter of Arm's FVPs is said to move in steps of 1,000 (seen on an FVP 11.27), so rows may be off by "
    "as much; the event npu_active is not; the CPU's cycles on an FVP are not cycle-accurate"
)


@dataclass(frozen=True)
class Runner:
    """A user's runner: an ELF that speaks ExecuTorch's semihosting protocol.

    See `ethos_hil.harness.targets.executor_runner`.
    """

    path: Path
    elf: bytes

    @classmethod
    def read(cls, path: Path) -> Runner:
        """Read the runner in a file.

        Raises:
            UsageError: the file cannot be read.
        """
        try:
            return cls(path, read_bytes(path, most=MOST_ELF))
        except OSError as error:
            raise UsageError(
                f"--runner {path} cannot be read: {error.strerror}", hint="give the ELF of an arm_executor_runner"
            ) from error

    @property
    def info(self) -> RunnerInfo:
        """What a record says of it."""
        return RunnerInfo(str(self.path), hashlib.sha256(self.elf).hexdigest())


def run(question: Question, *, reporter: Reporter | None = None, pool: BoardPool | None = None) -> Report:
    """Lower the model (or take it from the cache), run it on the target, and compare every output.

    Args:
        question: what to run, and where.
        reporter: receives the progress.
        pool: keeps boards between runs; without a pool every run starts a board and stops it.

    Raises:
        UsageError, ToolError, TargetError, OracleError: see `ethos_hil.base.errors`.
            A mismatch is not raised; the record's verdict reports it.
    """
    reporter, asked = reporter or Silent(), question
    watch = Stopwatch("starting")
    # Errors that need no model come first: loading it imports torch, and lowering may take a minute.
    check_question(question)
    npu = question.npu_name
    board = target_of(question, pool=pool, tell=reporter.stage)
    firmware = find_firmware(board.soc) if question.runner is None else Runner.read(question.runner)
    if not isinstance(firmware, Runner):
        check_firmware(firmware, board.soc)
    question = _add_executions(question, board)
    data = RunData.read(question)
    REFERENCE_MODEL.start()  # it is imported while the model is loaded and lowered
    what = f"Lowering {question.label} for {npu}"
    reporter.stage(what)
    watch.begin("lowering")

    def progress(text: str) -> None:
        watch.begin_stage(text)
        reporter.stage(f"{what}: {text}")

    lowering = lower_question(
        question,
        # PyTorch's answers are known for the example inputs, and for the first call of a model with state.
        needed=lambda stateful, repeat: (
            question.inputs is not None or (stateful and (question.repeat or max(repeat.values(), default=1)) > 1)
        ),
        progress=progress,
    )
    artifact = lowering.artifact.of(question.method)
    question = dataclasses.replace(question, repeat=question.repeat or lowering.repeat.get(artifact.method, 1))
    text = lowering.text.get(artifact.method, "")
    check_text(artifact, text)
    method = lowering.model.methods[artifact.method] if lowering.model is not None else None
    with naming_program(artifact):
        report = _run_artifact(artifact, board, firmware, question, data.of(lowering.source), reporter, watch, method)
    facts = report.facts
    loss = facts.loss
    # Layers are compared in this process, in calls that know nothing of one another.
    if loss is not None and not artifact.keeps_state and not question.subject:
        watch.begin("explaining")
        load = _loader(question, lowering)
        loss = with_layer(loss, question, artifact.method, report.answer.input_sets, load, reporter.stage)
    return report.with_facts(
        notes=(*lowering.notes_for(artifact.method), *facts.notes),
        metrics=(*facts.metrics, *watch.metrics()),
        text=written_text(report.outcome, artifact.outputs, text),
        question=asked.for_record(),
        loss=loss,
    )


def _loader(question: Question, lowering: LoweredModel) -> Callable[[], TorchModel | ProgramFile | None]:
    """Return what loads the model, if that has not been done."""
    return lambda: lowering.source or lower_question(question, needed=lambda *_: True).source


def run_artifact(
    artifact: Artifact,
    board: Target,
    question: Question,
    *,
    firmware: bytes | None = None,
    reporter: Reporter | None = None,
) -> Report:
    """Do the part of `run` after lowering: preflight, pack, boot, run, compare.

    Args:
        artifact: what to run.
        board: the target, in the idle state; it is idle again when this returns or raises.
        question: only its model's name, inputs, expected outputs, repeat, timeout and delegation are used.
        firmware: the firmware's ELF; by default the one for the board.
        reporter: receives the progress.
    """
    question.check()
    elf = find_firmware(board.soc) if firmware is None else firmware
    report = _run_artifact(
        artifact,
        board,
        elf,
        _add_executions(question, board),
        RunData.read(question),
        reporter or Silent(),
        Stopwatch("starting"),
    )
    return report.with_facts(question=question.for_record())


def _run_artifact(
    artifact: Artifact,
    board: Target,
    firmware: bytes | Runner,
    question: Question,
    data: RunData,
    reporter: Reporter,
    watch: Stopwatch,
    method: Method | None = None,
) -> Report:
    watch.begin("checking")
    input_sets, remarks = data.input_sets(artifact)
    repeat = question.repeat or 1
    expected = data.answers(artifact, len(input_sets), repeat)
    executions = len(input_sets) * repeat
    if artifact.keeps_state and isinstance(firmware, Runner) and executions > 1:
        raise UsageError(
            f"{question.label} keeps state, and a runner boots for each of the {executions} executions",
            hint="leave out --runner, or run one input set once",
        )
    if question.min_sqnr is not None:
        require_float_answers(artifact, input_sets, method, question.label)

    footprint = Footprint.of(artifact)
    own = None if isinstance(firmware, Runner) else Firmware.read(firmware)
    place, count = Destination(board.npu, board.soc, own), len(input_sets)
    checks = examine(artifact, place, footprint, input_sets=count, demands=question)
    raise_if_failed(checks, info(artifact))

    profile = None
    if question.profile and own is not None:
        profile = dataclasses.replace(_profile_plan(question, board), mode=memory_mode(artifact, footprint, own.sram))
    system = artifact.system
    follows = board.compiled_for(system)
    watch.begin("reference")
    references: tuple[ReferenceRun, ...] = ()
    lacking = None
    if expected is None or not artifact.foreign:
        references, lacking = references_of(artifact, input_sets, repeat, reporter)
    try:
        if isinstance(firmware, Runner):
            outcome = _run_runner(artifact, board, firmware, question, input_sets, reporter, watch)
        else:
            outcome = _run_firmware(
                artifact, footprint, board, firmware, question, input_sets, reporter, watch, profile
            )
    finally:
        board.reset()
    watch.begin("verifying")
    default = VelaSetup.default(EthosU.parse(board.npu)).system
    known = follows or board.cycle_provenance != "modelled" or system == default
    doubts = () if known else _of_default_memories(artifact, default.name)
    runner = firmware.info if isinstance(firmware, Runner) else None
    calls = None if method is None else call_model(method, artifact, input_sets, repeat)
    answer = Answer(
        artifact, board, input_sets, references, outcome, runner, calls, question.min_sqnr, expected, lacking, profile
    )
    report = report_of(answer, question.label, reporter=reporter)
    if profile is not None and board.cycle_provenance == "fvp":
        doubts = (_GRID, *doubts)
    if own is not None and own.doubt is not None:
        doubts = (own.doubt, *doubts)
    notes = (*doubts, *remarks, *report.facts.notes)
    digest = "" if isinstance(firmware, Runner) else hashlib.sha256(firmware).hexdigest()
    # Not in `report_of`, which also compares an answer that was recorded, with another firmware and another model.
    model = timing_model_id() if board.cycle_provenance == "modelled" else ""
    # Our firmware leaves the timing adapters of an FVP and of an MPS3's FPGA as they are after reset.
    adapters = "reset" if board.kind != "virtual" and not isinstance(firmware, Runner) else ""
    facts = dataclasses.replace(
        report.facts, notes=notes, firmware_sha256=digest, timing_model=model, timing_adapters=adapters
    )
    clock = asked_clock(question.clock) or _clock_of(outcome.board, board.name)
    return dataclasses.replace(report, facts=with_latency(facts, clock))


def _clock_of(board: BoardRun | None, name: str) -> StatedClock | None:
    """Return the clocks of a target; None where it is not a board, or the clock of its NPU is not known."""
    if board is None or board.simulated or not board.npu_hz:
        return None
    return StatedClock(board.npu_hz, f"the clock of {name}", board.cpu_hz)


def _run_runner(
    artifact: Artifact,
    board: Target,
    runner: Runner,
    question: Question,
    input_sets: Sequence[InputSet],
    reporter: Reporter,
    watch: Stopwatch,
) -> Outcome:
    first = artifact.program.plans[0].name
    if artifact.method != first:  # arm_executor_runner.cpp of executorch 1.4.1: get_method_name(0)
        raise UsageError(
            f"{runner.path.name} runs a program's first method, {first}, not {artifact.method}",
            hint="leave out --runner; our firmware runs any method",
        )
    watch.begin("running")
    _follow(board, f"Running {runner.path.name}: on {board.name} {board.soc}", reporter)
    job = RunnerJob(artifact.pte, _pack(artifact, input_sets), artifact.plan.output_tensors, question.repeat or 1)
    return run_program(board, runner.elf, job, timeout=question.timeout, progress=reporter.step)


def _run_firmware(
    artifact: Artifact,
    footprint: Footprint,
    board: Target,
    firmware: bytes,
    question: Question,
    input_sets: Sequence[InputSet],
    reporter: Reporter,
    watch: Stopwatch,
    profile: ProfilePlan | None,
) -> Outcome:
    watch.begin("packing")
    reporter.stage("Packing the image")
    # On the virtual board no time passes while the NPU works, so no cycles need to be modelled for a limit of time.
    modelled = board.kind != "virtual"
    limit = npu_time_limit(artifact, board.npu, find_soc(board.soc), question.timeout, modelled=modelled)
    image = image_of(
        artifact,
        footprint,
        firmware,
        input_sets,
        repeat=question.repeat or 1,
        npu_timeout_ms=limit,
        clocks=board.clocks,
        printable=board.printable,
        profile=profile,
    )
    watch.begin("running")
    _follow(board, f"Running {question.label}: on {board.name} {board.soc}", reporter)
    board.load(image)
    return board.run(timeout=question.timeout, progress=reporter.step)


def _follow(board: Target, what: str, reporter: Reporter) -> None:
    """Start the stage of the run, and report what the target tells while it goes on."""
    reporter.stage(what)
    board.listen(lambda text: reporter.stage(f"{what}: {text}"))


def _of_default_memories(artifact: Artifact, default: str) -> tuple[str, ...]:
    """Return a note where cycles are modelled with other memories than those that the program is compiled for."""
    name = artifact.system_name
    if not name or not artifact.delegates:
        return ()
    return (
        f"the cycles are modelled with the memories of {default}: the program is compiled for {name}, whose numbers "
        "are not in it",
    )


def image_of(
    artifact: Artifact,
    footprint: Footprint,
    firmware: bytes,
    input_sets: Sequence[InputSet],
    *,
    repeat: int = 1,
    npu_timeout_ms: int = LEAST_MS,
    clocks: Clocks = OWN_CLOCKS,
    printable: bool = False,
    profile: ProfilePlan | None = None,
    stays: bool = False,
    run_id: bytes | None = None,
) -> Image:
    """Return the image of an artifact. Equal arguments give equal images, except for the run's id (see `pack`)."""
    plan = RunPlan(
        input_set_count=len(input_sets),
        inputs_per_set=len(artifact.plan.input_tensors),
        repeat=repeat,
        memory_mode=memory_mode(artifact, footprint, Firmware.read(firmware).sram),
        fast_scratch_bytes=footprint.fast_scratch,
        method=artifact.method,
        npu_timeout_ms=npu_timeout_ms,
        clocks=clocks,
        printable=printable,
        event_sets=(DEFAULT_EVENTS,) if profile is None else profile.event_sets,
        cuts=() if profile is None else profile.cuts(artifact),
        time_steps=profile is not None,
        stays=stays,
    )
    data = tuple(artifact.ptd.values())
    return pack(firmware, artifact.pte, _pack(artifact, input_sets), plan, data=data, run_id=run_id)


def _add_executions(question: Question, board: Target) -> Question:
    """Return the question with as many executions as its profile needs."""
    if not question.profile:
        return question
    return dataclasses.replace(question, repeat=_profile_plan(question, board).executions)


def _profile_plan(question: Question, board: Target) -> ProfilePlan:
    if question.runner is not None:
        raise UsageError("a runner of yours has no profile", hint="leave out --runner; our firmware takes profiles")
    return ProfilePlan.of(question, board)


def _pack(artifact: Artifact, input_sets: Sequence[InputSet]) -> list[list[bytes]]:
    tensors = artifact.plan.input_tensors
    return [
        [tensor.to_bytes(value) for tensor, value in zip(tensors, input_set, strict=True)] for input_set in input_sets
    ]
