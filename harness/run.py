"""The main job: lower, pack, boot, run, verify, and put it all in a record."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint, memory_mode
from ethos_hil.harness.image.inputs import InputFile, InputSet
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.image.preflight import Destination, examine, insist
from ethos_hil.harness.outcome import Outcome
from ethos_hil.harness.progress import Reporter, Silent
from ethos_hil.harness.targets.base import Target
from ethos_hil.harness.targets.executor_runner import RunnerJob, run_program
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.verdict import trace_file
from ethos_hil.harness.verdict.accuracy import accuracies
from ethos_hil.harness.verdict.decide import Evidence, decide
from ethos_hil.harness.verdict.divergence import localise
from ethos_hil.harness.verdict.metrics import metrics, rows
from ethos_hil.harness.verdict.verify import verify
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.errors import UsageError
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.memory_mode import MemoryMode
from ethos_hil.lowering.model import ProgramFile, TorchModel
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.lowering.oracle.reference import Reference, ReferenceRun
from ethos_hil.results import environment
from ethos_hil.results.record import ArtifactInfo, Record, RunnerInfo, TargetInfo

BATCH_HINT = (
    "try a batch of 1: Vela 5.1 compiles some programs with larger batches wrongly "
    "(docs/decisions/0004-where-lowering-departs-from-upstream.md)"
)


@dataclass(frozen=True)
class Report:
    """A finished run: its record, and what it was made from."""

    record: Record
    artifact: Artifact
    input_sets: tuple[InputSet, ...]
    references: tuple[ReferenceRun, ...]
    outcome: Outcome


@dataclass(frozen=True)
class Runner:
    """A runner of the user's: an ELF that speaks ExecuTorch's semihosting protocol.

    See `ethos_hil.harness.targets.executor_runner`.
    """

    path: Path
    elf: bytes

    @classmethod
    def read(cls, path: Path) -> Runner:
        """The runner in a file.

        Raises:
            UsageError: it cannot be read.
        """
        try:
            return cls(path, path.read_bytes())
        except OSError as error:
            raise UsageError(
                f"--runner {path} cannot be read: {error.strerror}", hint="give the ELF of an arm_executor_runner"
            ) from error


def run(
    source: TorchModel | ProgramFile,
    npu: NpuName,
    *,
    target: str = "virtual",
    memory_mode: MemoryMode | None = None,
    runner: Path | None = None,
    fast: bool = False,
    inputs: Path | tuple[InputSet, ...] | None = None,
    repeat: int = 1,
    timeout: float = 120.0,
    strict: bool = False,
    trace: Path | None = None,
    method: str | None = None,
    reporter: Reporter | None = None,
) -> Report:
    """Lower `source` (or take it from the cache), run it on `target`, and verify every output.

    Args:
        source: the model, from `ethos_hil.lowering.model`.
        npu: what it is compiled for, and what the target must have.
        target: name of a target, as `ethos_hil.harness.targets.registry.make_target` takes it.
        memory_mode: what it is compiled for, by default as ExecuTorch has it for that NPU.
        runner: an ELF to run it with in place of the firmware.
        fast: let an FVP leave out the NPU's timing; no cycles are reported then.
        inputs: an .npz file, input sets, or None for the model's example inputs.
        repeat: executions of each input set.
        timeout: wall seconds for the run on the target.
        strict: fail where the command stream lacks a wait, even if the answer is right.
        trace: file for a record of every NPU operation, written before anything runs.
        method: of a program of several methods the one to run; by default forward, or the first.
        reporter: hears of progress.

    Raises:
        UsageError, ToolError, TargetError, OracleError: see `ethos_hil.lowering.errors` and `ethos_hil.harness.errors`.
        A mismatch is not
            raised; it is the record's verdict.
    """
    reporter = reporter or Silent()
    # What can be wrong without a model comes before lowering, which may take a minute.
    board = make_target(target, npu, strict=strict, fast=fast)
    firmware = find_firmware(board.soc) if runner is None else Runner.read(runner)
    given = InputFile.read(inputs) if isinstance(inputs, Path) else inputs

    reporter.stage(f"Lowering {source.label} for {npu}")
    started = time.monotonic()
    artifact = lower(
        source,
        npu,
        memory_mode=memory_mode,
        progress=lambda text: reporter.stage(f"Lowering {source.label} for {npu}: {text}"),
    ).of(method)
    seconds = {"lowering": time.monotonic() - started}
    if trace is not None:
        trace_file.write(artifact, npu, trace)
    report = run_artifact(
        artifact,
        board,
        firmware,
        label=source.label,
        inputs=given,
        repeat=repeat,
        timeout=timeout,
        reporter=reporter,
        seconds=seconds,
    )
    said = source.notes if isinstance(source, TorchModel) else ()
    return dataclasses.replace(report, record=dataclasses.replace(report.record, notes=(*said, *report.record.notes)))


def run_artifact(
    artifact: Artifact,
    board: Target,
    firmware: bytes | Runner,
    *,
    label: str,
    inputs: InputFile | tuple[InputSet, ...] | None = None,
    repeat: int = 1,
    timeout: float = 120.0,
    reporter: Reporter | None = None,
    seconds: Mapping[str, float] = MappingProxyType({}),
) -> Report:
    """The part of `run` after lowering: preflight, pack, boot, run, verify.

    Args:
        artifact: what to run.
        board: where, idle; it is idle again when this returns or raises.
        firmware: the firmware's ELF, or a runner to use in its place.
        label: what the record calls the model.
        inputs, repeat, timeout, reporter: as for `run`.
        seconds: wall seconds of earlier phases, for the record.
    """
    reporter = reporter or Silent()
    tensors = artifact.plan.input_tensors
    if inputs is None:
        input_sets: tuple[InputSet, ...] = (artifact.example_inputs,)
    elif isinstance(inputs, InputFile):
        input_sets = inputs.input_sets(tensors)
    else:
        input_sets = inputs

    footprint = Footprint.of(artifact)
    own = None if isinstance(firmware, Runner) else Firmware.read(firmware)
    insist(examine(artifact, Destination(board.npu, board.soc, own), footprint, input_sets=len(input_sets)))

    reporter.stage("Computing the reference with tosa_reference_model")
    reference = Reference(artifact)
    references = []
    for index, input_set in enumerate(input_sets):
        references.append(reference.run(input_set))
        reporter.step(index + 1, len(input_sets))

    try:
        if isinstance(firmware, Runner):
            first = artifact.program.plans[0].name
            if artifact.method != first:  # arm_executor_runner.cpp of executorch 1.4.1: get_method_name(0)
                raise UsageError(
                    f"{firmware.path.name} runs a program's first method, {first}, not {artifact.method}",
                    hint="leave out --runner; our firmware runs any method",
                )
            reporter.stage(f"Running {firmware.path.name} on {board.name} {board.soc}")
            job = RunnerJob(artifact.pte, _packed(artifact, input_sets), artifact.plan.output_tensors, repeat)
            outcome = run_program(board, firmware.elf, job, timeout=timeout, progress=reporter.step)
        else:
            reporter.stage("Packing the image")
            image = image_of(artifact, footprint, firmware, input_sets, repeat=repeat)
            reporter.stage(f"Running on {board.name} {board.soc}")
            board.load(image)
            outcome = board.run(timeout=timeout, progress=reporter.step)
    finally:
        board.reset()
    runner = firmware if isinstance(firmware, Runner) else None
    return judge(artifact, board, input_sets, references, outcome, label, runner, reporter, seconds)


def image_of(
    artifact: Artifact, footprint: Footprint, firmware: bytes, input_sets: Sequence[InputSet], *, repeat: int = 1
) -> Image:
    """What is loaded to run an artifact: all of it but the run's id is the same for the same arguments."""
    plan = RunPlan(
        input_set_count=len(input_sets),
        inputs_per_set=len(artifact.plan.input_tensors),
        repeat=repeat,
        memory_mode=memory_mode(artifact, footprint, Firmware.read(firmware).sram),
        fast_scratch_bytes=footprint.fast_scratch,
        method=artifact.method,
    )
    return pack(firmware, artifact.pte, _packed(artifact, input_sets), plan)


def judge(
    artifact: Artifact,
    board: Target,
    input_sets: tuple[InputSet, ...],
    references: Sequence[ReferenceRun],
    outcome: Outcome,
    label: str,
    runner: Runner | None = None,
    reporter: Reporter | None = None,
    seconds: Mapping[str, float] = MappingProxyType({}),
) -> Report:
    """The part of `run` after the target has answered: compare, say where it went wrong, and put it in a record.

    Args:
        artifact: what ran.
        board: where. It is asked what it is, and not to do anything.
        input_sets: what it was given.
        references: the answer to each.
        outcome: what it brought back.
        label, reporter, seconds: as for `run_artifact`.
        runner: what ran in place of the firmware.
    """
    reporter = reporter or Silent()
    reporter.stage("Verifying")
    comparison = verify(outcome, references, with_delegates=runner is None)
    decision = decide(Evidence(difference=comparison.difference, compared=comparison.compared))
    failure = decision.failure
    if failure is not None and any(tensor.sizes[:1] > (1,) for tensor in artifact.plan.input_tensors):
        failure = dataclasses.replace(failure, hint=BATCH_HINT)
    divergence = None
    if failure is not None:
        reporter.stage("Looking for the first operation that differs")
        divergence = localise(artifact, board, references, outcome)
    first = next((run for run in outcome.runs if run.input_set == 0), None)
    record = Record(
        verdict=decision.verdict,
        model=label,
        npu=str(artifact.npu or board.npu),
        target=describe(board),
        failure=failure,
        divergence=divergence,
        outputs=comparison.outputs,
        accuracy=accuracies(artifact, input_sets[0], first.outputs) if first is not None else (),
        metrics=metrics(artifact, board, outcome, seconds),
        ops=rows(artifact, board, outcome),
        artifact=info(artifact),
        versions=environment.versions() | ({"fvp": board.version} if board.kind == "fvp" else {}),
        executions=len(outcome.runs),
        notes=artifact.notes,
        console=outcome.console,
        memory_mode=str(artifact.memory_mode or ""),
        method=artifact.method,
        runner=_runner_info(runner) if runner is not None else None,
    )
    return Report(record, artifact, input_sets, tuple(references), outcome)


def _packed(artifact: Artifact, input_sets: Sequence[InputSet]) -> list[list[bytes]]:
    tensors = artifact.plan.input_tensors
    return [
        [tensor.to_bytes(value) for tensor, value in zip(tensors, input_set, strict=True)] for input_set in input_sets
    ]


def describe(board: Target) -> TargetInfo:
    """The target, for a record."""
    return TargetInfo(board.name, board.kind, board.soc)


def info(artifact: Artifact) -> ArtifactInfo:
    """The artifact, for a record."""
    return ArtifactInfo(artifact.sha256, len(artifact.pte), len(artifact.npu_ops), artifact.cpu_ops)


def _runner_info(runner: Runner) -> RunnerInfo:
    return RunnerInfo(str(runner.path), hashlib.sha256(runner.elf).hexdigest())
