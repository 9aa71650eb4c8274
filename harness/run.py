"""The main job: lower, pack, boot, run, verify, and put it all in a record."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from harness import tracefile
from harness.attribution import attribute, estimated
from harness.divergence import localise
from harness.errors import TargetError
from harness.image import Plan, pack
from harness.inputs import InputFile, InputSet
from harness.progress import Reporter, Silent
from harness.targets import make_target
from harness.targets.base import Capability, Outcome, Target
from harness.verify import verify
from lowering.artifact import Artifact
from lowering.errors import ToolError
from lowering.lower import lower
from lowering.model import ProgramFile, TorchModel
from lowering.profile import Npu
from lowering.reference import Reference, ReferenceRun
from results import environment
from results.record import ArtifactInfo, Metric, Op, Record, TargetInfo

BATCH_HINT = (
    "try a batch of 1: Vela 5.1 compiles some programs with larger batches wrongly "
    "(docs/decisions/0004-where-lowering-departs-from-upstream.md)"
)
FIRMWARE_VARIABLE = "ETHOS_HIL_FIRMWARE"
_BUILT_FIRMWARE = Path(__file__).parents[1] / "build/firmware/corstone300/ethos-hil.elf"


@dataclass(frozen=True)
class Report:
    """A finished run: its record, and what it was made from."""

    record: Record
    artifact: Artifact
    input_sets: tuple[InputSet, ...]
    references: tuple[ReferenceRun, ...]
    outcome: Outcome


def find_firmware() -> bytes:
    """The firmware's ELF, from $ETHOS_HIL_FIRMWARE or where `make firmware` puts it.

    Raises:
        ToolError: there is none.
    """
    path = Path(os.environ.get(FIRMWARE_VARIABLE) or _BUILT_FIRMWARE)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ToolError(
            f"no firmware at {path}: {error.strerror}", hint=f"run `make firmware`, or set {FIRMWARE_VARIABLE}"
        ) from error


def run(
    source: TorchModel | ProgramFile,
    npu: Npu,
    *,
    target: str = "virtual",
    inputs: Path | tuple[InputSet, ...] | None = None,
    repeat: int = 1,
    timeout: float = 120.0,
    strict: bool = False,
    trace: Path | None = None,
    reporter: Reporter | None = None,
) -> Report:
    """Lower `source` (or take it from the cache), run it on `target`, and verify every output.

    Args:
        source: the model, from `lowering.model`.
        npu: what it is compiled for, and what the target must have.
        target: name of a target, as `harness.targets.make_target` takes it.
        inputs: an .npz file, input sets, or None for the model's example inputs.
        repeat: executions of each input set.
        timeout: wall seconds for the run on the target.
        strict: fail where the command stream lacks a wait, even if the answer is right.
        trace: file for a record of every NPU operation, written before anything runs.
        reporter: hears of progress.

    Raises:
        UsageError, ToolError, TargetError, OracleError: see `lowering.errors` and `harness.errors`. A mismatch is not
            raised; it is the record's verdict.
    """
    reporter = reporter or Silent()
    # What can be wrong without a model comes before lowering, which may take a minute.
    board = make_target(target, npu, strict=strict)
    firmware = find_firmware()
    given = InputFile.read(inputs) if isinstance(inputs, Path) else inputs

    reporter.stage(f"Lowering {source.label} for {npu}")
    started = time.monotonic()
    artifact = lower(source, npu, progress=lambda text: reporter.stage(f"Lowering {source.label} for {npu}: {text}"))
    seconds = {"lowering": time.monotonic() - started}
    if trace is not None:
        tracefile.write(artifact, npu, trace)
    return run_artifact(
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


def run_artifact(
    artifact: Artifact,
    board: Target,
    firmware: bytes,
    *,
    label: str,
    inputs: InputFile | tuple[InputSet, ...] | None = None,
    repeat: int = 1,
    timeout: float = 120.0,
    reporter: Reporter | None = None,
    seconds: Mapping[str, float] = MappingProxyType({}),
) -> Report:
    """The part of `run` after lowering: pack, boot, run, verify.

    Args:
        artifact: what to run.
        board: where, idle; it is idle again when this returns or raises.
        firmware: the firmware's ELF.
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

    reporter.stage("Computing the reference with tosa_reference_model")
    reference = Reference(artifact)
    references = []
    for index, input_set in enumerate(input_sets):
        references.append(reference.run(input_set))
        reporter.step(index + 1, len(input_sets))

    reporter.stage("Packing the image")
    plan = Plan(input_set_count=len(input_sets), inputs_per_set=len(tensors), repeat=repeat)
    packed = [
        [tensor.to_bytes(value) for tensor, value in zip(tensors, input_set, strict=True)] for input_set in input_sets
    ]
    image = pack(firmware, artifact.pte, packed, plan)

    reporter.stage(f"Running on {board.name} {board.soc}")
    try:
        board.load(image)
        outcome = board.run(timeout=timeout, progress=reporter.step)
    finally:
        board.reset()

    reporter.stage("Verifying")
    verdict = verify(outcome, references)
    failure = verdict.failure
    if failure is not None and any(tensor.sizes[:1] > (1,) for tensor in tensors):
        failure = dataclasses.replace(failure, hint=BATCH_HINT)
    divergence = None
    if failure is not None:
        reporter.stage("Looking for the first operation that differs")
        divergence = localise(artifact, board, references, outcome)
    record = Record(
        verdict=verdict.status,
        model=label,
        npu=str(artifact.npu or board.npu),
        target=describe(board),
        failure=failure,
        divergence=divergence,
        outputs=verdict.outputs,
        metrics=_metrics(artifact, board, outcome, seconds),
        ops=_ops(artifact, board, outcome),
        artifact=info(artifact),
        versions=environment.versions(),
        executions=len(outcome.runs),
        notes=artifact.notes,
        console=outcome.console,
    )
    return Report(record, artifact, input_sets, tuple(references), outcome)


def describe(board: Target) -> TargetInfo:
    """The target, for a record."""
    return TargetInfo(board.name, board.kind, board.soc)


def info(artifact: Artifact) -> ArtifactInfo:
    """The artifact, for a record."""
    return ArtifactInfo(artifact.sha256, len(artifact.pte), len(artifact.npu_ops), artifact.cpu_ops)


def _ops(artifact: Artifact, board: Target, outcome: Outcome) -> tuple[Op, ...]:
    if Capability.OP_EVENTS not in board.capabilities() or not outcome.runs:
        return estimated(artifact)
    # The median execution, so that the rows sum to the total that is shown.
    counted = statistics.median_low(run.cycles for run in outcome.runs)
    middle = next(run for run in outcome.runs if run.cycles == counted)
    rows = attribute(artifact, middle, board.cycle_provenance)
    total = sum(row.cycles or 0 for row in rows)
    if total != counted:
        raise TargetError(f"the NPU counted {counted} cycles, its operations sum to {total}", kind="link")
    return rows


def _metrics(artifact: Artifact, board: Target, outcome: Outcome, seconds: Mapping[str, float]) -> tuple[Metric, ...]:
    metrics = []
    if Capability.NPU_CYCLES in board.capabilities() and outcome.runs:
        cycles = [run.cycles for run in outcome.runs]
        metrics.append(Metric("npu_cycles", statistics.median_low(cycles), "cycles", board.cycle_provenance))
        if min(cycles) != max(cycles):
            metrics.append(Metric("npu_cycles_min", min(cycles), "cycles", board.cycle_provenance))
            metrics.append(Metric("npu_cycles_max", max(cycles), "cycles", board.cycle_provenance))
    estimate = sum(op.vela_cycles for op in artifact.npu_ops)
    metrics.append(Metric("npu_cycles_estimate", estimate, "cycles", "vela"))
    for name in ("planned_bytes", "scratch_bytes", "sram_used", "ddr_used"):
        metrics.append(Metric(name, outcome.memory[name], "bytes", "reported"))
    for phase, value in {**seconds, **outcome.seconds}.items():
        metrics.append(Metric(f"{phase}_seconds", round(value, 4), "s", "host"))
    return tuple(metrics)
