"""What one version made of the question: digests, counts, modelled cycles, and whether its answer is right."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ethos_hil.base.errors import OracleError
from ethos_hil.base.record import Op
from ethos_hil.harness.npu import Execution, Npu, NpuProgram
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.isa.operations import Dma
from ethos_hil.harness.npu.timing.memory_system import MODES, memory_system
from ethos_hil.harness.profile.prefix import rows_of
from ethos_hil.harness.verdict.metrics import row_of
from ethos_hil.harness.verdict.replay import elements_of
from ethos_hil.harness.verdict.run_delegate import fast_size, run_delegate
from ethos_hil.lowering.artifact import Artifact, Delegate, row_at
from ethos_hil.lowering.oracle.reference import Reference, evaluate
from ethos_hil.lowering.vela.options import VelaSetup

MODELLED = "modelled"
Answer = tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]
"""Inputs of a delegate, and the outputs that are right."""


class ScanAnswer(StrEnum):
    """How the functional NPU answers the example inputs. It is not a verdict: nothing was booted."""

    EQUAL = "equal"
    """Every element of every delegate's output is that of tosa_reference_model."""
    WRONG = "wrong"
    """One is not, or the functional NPU cannot execute a delegate."""
    UNKNOWN = "unknown"
    """Nothing says what is right."""


@dataclass(frozen=True)
class CompiledVersion:
    """What a version compiled. All sums are over the delegates.

    Attributes:
        version: the version.
        reason: why there is no program, in which case the rest is empty; else "".
        packages: the versions of what was in its environment.
        tosa_sha256: of what the TOSA programs compute (`ethos_hil.lowering.formats.tosa`).
        stream_sha256, weights_sha256: of the command streams and of the encoded weights; of several, the digest of
            their digests.
        operations: operations of the NPU; DMA transfers are among them.
        transfers: DMA transfers.
        cycles: modelled cycles; None where the NPU cannot execute it.
        vela_cycles: the compiler's own estimate.
        stream_bytes, weights_bytes: their sizes.
        arena_bytes, fast_bytes: working memory, of the delegate that needs most, in regions 1 and 2.
        answer: how the functional NPU answers the example inputs.
        said: why it is not equal, or "".
        ops: the operations with their modelled cycles, by the rows of the delegate map.
        notes: sentences for the user.
        seconds: of compiling, or of lowering and compiling.
    """

    version: str
    reason: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    tosa_sha256: str = ""
    stream_sha256: str = ""
    weights_sha256: str = ""
    operations: int = 0
    transfers: int = 0
    cycles: int | None = None
    vela_cycles: int = 0
    stream_bytes: int = 0
    weights_bytes: int = 0
    arena_bytes: int = 0
    fast_bytes: int = 0
    answer: ScanAnswer = ScanAnswer.UNKNOWN
    said: str = ""
    ops: tuple[Op, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class _Ran:
    """A delegate on the functional NPU."""

    program: NpuProgram
    cycles: int | None
    ops: tuple[Op, ...]
    wrong: str


def answers(artifact: Artifact) -> tuple[dict[int, Answer], str]:
    """Return the inputs and the right outputs of each delegate by its instruction, for the model's example inputs; and
    why there are none, or "".
    """
    try:
        run = Reference(artifact).run(artifact.example_inputs)
        by_instruction = {}
        for delegate in artifact.delegates:
            inputs = run.delegate_inputs.get(delegate.instruction)
            if inputs is not None and delegate.tosa is not None:
                what = f"instruction {delegate.instruction}"
                by_instruction[delegate.instruction] = inputs, evaluate(delegate.tosa, inputs, what)
    except OracleError as error:
        return {}, error.message
    return by_instruction, ""


def measure(
    version: str,
    delegates: Sequence[Delegate],
    setup: VelaSetup,
    right: tuple[Mapping[int, Answer], str],
    *,
    packages: Mapping[str, str],
    notes: Sequence[str] = (),
    seconds: float = 0.0,
) -> CompiledVersion:
    """Return what a version compiled.

    Args:
        version: the version.
        delegates: what it compiled.
        setup: what they are compiled for.
        right: what `answers` returned.
        packages, notes, seconds: as in the result.

    Raises:
        Fault: a command stream cannot be decoded.
    """
    known, missing = right
    ran = [_run(delegate, setup, known.get(delegate.instruction)) for delegate in delegates]
    blobs = [delegate.blob for delegate in delegates]
    tosa, streams, weights = ([delegate.digests[part] for delegate in delegates] for part in range(3))
    wrong = next((run.wrong for run in ran if run.wrong), "")
    unknown = missing or ("" if len(known) == len(delegates) else "not every delegate is called for these inputs")
    cycles = [run.cycles for run in ran if run.cycles is not None]
    return CompiledVersion(
        version,
        packages=packages,
        tosa_sha256=_join(tosa),
        stream_sha256=_join(streams),
        weights_sha256=_join(weights),
        operations=sum(len(run.program.ops) for run in ran),
        transfers=sum(isinstance(op, Dma) for run in ran for op in run.program.ops),
        cycles=sum(cycles) if len(cycles) == len(ran) else None,
        vela_cycles=sum(int(float(delegate.summary.get("cycles_total", 0))) for delegate in delegates),
        stream_bytes=sum(len(blob.command_stream) for blob in blobs),
        weights_bytes=sum(len(blob.weights) for blob in blobs),
        arena_bytes=max((blob.scratch_size for blob in blobs), default=0),
        fast_bytes=max((fast_size(run.program) for run in ran), default=0),
        answer=ScanAnswer.WRONG if wrong else ScanAnswer.UNKNOWN if unknown else ScanAnswer.EQUAL,
        said=wrong or unknown,
        ops=tuple(op for run in ran for op in run.ops),
        notes=tuple(notes),
        seconds=seconds,
    )


def _run(delegate: Delegate, setup: VelaSetup, answer: Answer | None) -> _Ran:
    system = memory_system(setup.system, setup.npu.family)
    npu = Npu(setup.npu, system=system)
    program = npu.decode(delegate.blob.command_stream)
    ports = MODES[setup.mode.kind]
    wrong, execution = "", None
    if answer is not None:
        inputs, expected = answer
        try:
            raw = [np.ascontiguousarray(array).tobytes() for array in inputs]
            result = run_delegate(npu, delegate.blob, raw, program=program, ports=ports)
            wrong, execution = _difference(result.outputs, expected), result.execution
        except (Fault, ValueError) as error:
            wrong = f"the functional NPU cannot execute it: {error}"
    if execution is None and not program.has_branches and not wrong:
        execution = Execution(lambda: program.timing(ports, system))
    if execution is None:
        return _Ran(program, None, (), wrong)
    return _Ran(program, execution.cycles, _rows(delegate, program, execution), wrong)


def _difference(outputs: Sequence[bytes], expected: Sequence[np.ndarray]) -> str:
    """Return how the outputs differ from the right ones, or ""."""
    for number, (raw, right) in enumerate(zip(outputs, expected, strict=True)):
        actual = elements_of(raw, right.dtype)
        if actual.size != right.size:
            return f"output {number} has {actual.size} elements, the reference {right.size}"
        count = int(np.count_nonzero(actual != right.ravel()))
        if count:
            return f"{count:,} of {right.size:,} elements of output {number} differ from tosa_reference_model"
    return ""


def _rows(delegate: Delegate, program: NpuProgram, execution: Execution) -> tuple[Op, ...]:
    """Return the rows of the delegate map with the cycles of the operations in them."""
    rows = rows_of(program, delegate.npu_ops)
    cycles = [0] * len(rows)
    for op in execution.ops:
        index = row_at(rows, op.offset)
        cycles[len(rows) - 1 if index is None else index] += op.cycles
    pairs = zip(rows, cycles, strict=True)
    return tuple(row_of(row, count, MODELLED, delegate.instruction) for row, count in pairs)


def _join(digests: Sequence[str]) -> str:
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
