"""What one version made of the question: digests, counts, modelled cycles, and whether its answer is right.

A version of Vela compiles the frozen TOSA: that which was lowered here. An upstream lowers the model itself.

The frozen TOSA has no locations. What is known of it is the delegate map of the program that was lowered here, which
says of many of its operators where they come from. An operator that it does not name belongs to what gives its inputs,
else to what reads its output, as in `ethos_hil.lowering.map.delegate_map`.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence, Set
from enum import StrEnum
from functools import cached_property

import numpy as np

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.environment import SET, VELA
from ethos_hil.base.errors import CompileError, OracleError, UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.question import Question
from ethos_hil.base.record import Op
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.npu import Execution, Npu, NpuProgram
from ethos_hil.harness.npu.isa.operations import Dma
from ethos_hil.harness.npu.isa.stream import Fault
from ethos_hil.harness.npu.timing.memory_system import MODES, memory_system
from ethos_hil.harness.profile.prefix import rows_of
from ethos_hil.harness.verdict.against_pytorch import accuracies, against_example
from ethos_hil.harness.verdict.artifact_info import depth_of
from ethos_hil.harness.verdict.metrics import row_of
from ethos_hil.harness.verdict.replay import elements_of
from ethos_hil.harness.verdict.run_delegate import FAST, run_delegate
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp, row_at
from ethos_hil.lowering.cache.environments import VersionEnvironment
from ethos_hil.lowering.conditions.process import Progress
from ethos_hil.lowering.formats.tosa import Ancestor, Location, TosaGraph, TosaOperator
from ethos_hil.lowering.map.delegate_map import AtenCall, Partition, build_map
from ethos_hil.lowering.native.worker import NativeTool, ToolRaised
from ethos_hil.lowering.oracle.reference import Reference, evaluate
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaOutput, run_vela
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.options import VelaSetup

MODELLED = "modelled"
Answer = tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]
"""Inputs of a delegate, and the outputs that are right."""


@dataclass(frozen=True)
class Right:
    """What is right for a model's example inputs.

    Attributes:
        by_instruction: of each delegate, by its instruction.
        missing: why there is nothing, or "".
        outputs: the program's outputs.
    """

    by_instruction: Mapping[int, Answer]
    missing: str = ""
    outputs: tuple[np.ndarray, ...] = ()


class ScanAnswer(StrEnum):
    """How the functional NPU answers the example inputs. It is not a verdict: nothing was booted."""

    EQUAL = "equal"
    """Every element of every delegate's output is that of tosa_reference_model."""
    WRONG = "wrong"
    """One is not, or the functional NPU cannot execute a delegate, or an upstream lowered something else than the
    model."""
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
        sqnr_db: of the output with the lowest, against the float model in PyTorch; None where it is not known or
            infinite, and where the TOSA is that of here.
        answer: how the functional NPU answers the example inputs.
        said: why it is not equal, or "".
        ops: the operations with their modelled cycles, by the rows of the delegate map.
        title: the first line of a commit's message, "" for anything else.
        built: whether the version is there at all; False where it could not be installed or built.
        depth: how deep our lowering knows it, "full" or "bare".
        cpu_calls: what the CPU calls: operators that are not delegated, and conversions.
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
    title: str = ""
    built: bool = True
    depth: str = "full"
    cpu_calls: int = 0
    sqnr_db: float | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class _Ran:
    """A delegate on the functional NPU."""

    program: NpuProgram
    cycles: int | None
    ops: tuple[Op, ...]
    wrong: str


def answers(artifact: Artifact) -> Right:
    """Return what tosa_reference_model answers to a model's example inputs."""
    try:
        run = Reference(artifact).run(artifact.example_inputs)
        by_instruction = {}
        for delegate in artifact.delegates:
            inputs = run.delegate_inputs.get(delegate.instruction)
            if inputs is not None and delegate.tosa is not None:
                what = f"instruction {delegate.instruction}"
                by_instruction[delegate.instruction] = inputs, evaluate(delegate.tosa, inputs, what)
    except OracleError as error:
        return Right({}, error.message)
    return Right(by_instruction, outputs=run.outputs)


def measure(
    version: str,
    delegates: Sequence[Delegate],
    setup: VelaSetup,
    right: Right,
    *,
    packages: Mapping[str, str],
    depth: str = "full",
    cpu_calls: int = 0,
    notes: Sequence[str] = (),
    seconds: float = 0.0,
) -> CompiledVersion:
    """Return what a version compiled.

    Args:
        version: the version.
        delegates: what it compiled.
        setup: what they are compiled for.
        right: what `answers` returned.
        packages, depth, cpu_calls, notes, seconds: as in the result.

    Raises:
        Fault: a command stream cannot be decoded.
    """
    known = right.by_instruction
    ran = [_run(delegate, setup, known.get(delegate.instruction)) for delegate in delegates]
    blobs = [delegate.blob for delegate in delegates]
    tosa, streams, weights = ([delegate.digests[part] for delegate in delegates] for part in range(3))
    wrong = next((run.wrong for run in ran if run.wrong), "")
    unknown = right.missing or ("" if len(known) == len(delegates) else "not every delegate is called for these inputs")
    cycles = [run.cycles for run in ran if run.cycles is not None]
    return CompiledVersion(
        version,
        packages=packages,
        depth=depth,
        cpu_calls=cpu_calls,
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
        fast_bytes=max((run.program.used(FAST) for run in ran), default=0),
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


_ITS_OWN = (UsageError, Fault, ToolRaised)
"""Errors that are a version's: it has no program, and the scan goes on."""
_FROZEN = "frozen"
"""The name of a configuration file that is given to all versions alike, though it is the one in our Vela's wheel."""


@dataclass(frozen=True)
class ScanPoint:
    """What is lowered here for an NPU and a memory mode: what all versions start from.

    Attributes:
        question: the question.
        artifact: as it was lowered.
        setup: what Vela is asked.
    """

    question: Question
    artifact: Artifact
    setup: VelaSetup

    @cached_property
    def right(self) -> Right:
        """What `answers` returns for it."""
        return answers(self.artifact)


def by_vela(environment: VersionEnvironment, points: Sequence[ScanPoint]) -> list[CompiledVersion]:
    """Compile the frozen TOSA of each point with one version of Vela. Raises ToolError if its process cannot start."""
    tool = NativeTool("vela", "Vela", VELA, path=environment.alone, version=environment.version)
    try:
        return [_compile(tool, environment, point) for point in points]
    finally:
        tool.stop()


def _compile(tool: NativeTool, environment: VersionEnvironment, point: ScanPoint) -> CompiledVersion:
    setup = point.setup
    arguments = [*setup.flags, *DEBUG_FLAGS]
    began = time.monotonic()
    notes: list[str] = []
    try:
        delegates = []
        for delegate in point.artifact.delegates:
            tosa = delegate.tosa if delegate.compiled is None else delegate.compiled
            assert tosa is not None, "a delegate that was lowered here has its TOSA"
            output = run_vela(tosa, arguments, VelaIni(_FROZEN, setup.ini.text), tool=tool)
            delegates.append(_delegate(delegate, output, notes))
        same = [new.vela == old.vela for new, old in zip(delegates, point.artifact.delegates, strict=True)]
        if environment.version == point.artifact.versions.get(VELA) and not all(same):
            notes.append(f"the installed {VELA} {environment.version} makes another program of this TOSA")
        seconds = time.monotonic() - began
        return measure(
            environment.version, delegates, setup, point.right, packages=environment.packages,
            cpu_calls=len(point.artifact.placement.calls), notes=notes, seconds=seconds,
        )  # fmt: skip
    except _ITS_OWN as error:
        return CompiledVersion(environment.version, _reason(error), packages=environment.packages)


def by_upstream(version: str, question: Question, tell: Progress) -> CompiledVersion:
    """Lower a model with an upstream, and measure its program.

    Args:
        version: what the scan calls the upstream.
        question: what is asked, with the upstream as its subject.
        tell: is told what is done.

    Raises:
        EthosHilError: it makes no program.
    """
    began = time.monotonic()
    artifact = lower_question(question, progress=tell).artifact.of(question.method)
    seconds = time.monotonic() - began
    if not artifact.delegates:
        raise CompileError(f"nothing of {question.label} is on the NPU", hint="`ethos-hil lower` says why")
    right = answers(artifact)
    packages = {name: artifact.versions[name] for name in ("python", *SET) if name in artifact.versions}
    compiled = measure(
        version, artifact.delegates, VelaSetup.of(question), right, packages=packages,
        depth=depth_of(artifact), cpu_calls=len(artifact.placement.calls), notes=artifact.notes, seconds=seconds,
    )  # fmt: skip
    if right.missing:
        return compiled
    levels = [it.sqnr_db for it in accuracies(artifact, artifact.example_inputs, right.outputs)]
    finite = [level for level in levels if level is not None and math.isfinite(level)]
    compiled = replace(compiled, sqnr_db=round(min(finite), 1) if finite else None)
    failure = against_example(artifact, right.outputs).failure
    if failure is None or compiled.answer is ScanAnswer.WRONG:
        return compiled
    said = f"it lowered something else than the model: {failure.message}"
    return replace(compiled, answer=ScanAnswer.WRONG, said=said)


def _delegate(delegate: Delegate, output: VelaOutput, notes: list[str]) -> Delegate:
    try:
        rows = map_rows(output, delegate)
    except (CompileError, LookupError, ValueError) as error:
        notes.append(f"its operations have no lines: the debug database of this Vela is another one ({error})")
        rows = ()
    return replace(delegate, vela=output.blob, npu_ops=rows, summary=output.summary)


def _reason(error: Exception) -> str:
    """Return why a version makes no program, as it says itself."""
    lines = [line.strip() for note in getattr(error.__cause__, "__notes__", ()) for line in note.splitlines()]
    last = next((line for line in reversed(lines) if "error:" in line), "")
    return one_line(f"{error}".rstrip(": ") + (f": {last}" if last else ""))


def map_rows(output: VelaOutput, delegate: Delegate) -> tuple[NpuOp, ...]:
    """Return the delegate map of a program that another version compiled.

    Args:
        output: the program, with Vela's debug database.
        delegate: the delegate as it was lowered here; the output is compiled from the same TOSA.

    Raises:
        CompileError: the debug database does not describe the program.
        LookupError, ValueError: it is not as that of a version whose database is known.
    """
    rows = {row.id: row for row in delegate.npu_ops}
    calls = {row.id: AtenCall(row.id, row.id, row.module, row.source) for row in delegate.npu_ops}
    regions = TosaGraph.regions(output.tosa)
    name, graph = next(iter(regions.items()))
    new_rows = build_map(
        {**regions, name: _place(graph, delegate.npu_ops)},
        output.database,
        output.parsed.command_stream,
        Partition(calls, {}, {}),
        first_id=min((int(row.id.removeprefix("npu")) for row in delegate.npu_ops), default=0),
        total_cycles=int(float(output.summary.get("cycles_total", 0))),
    )
    return tuple(_rename(row, [rows[call] for call in row.aten_ops]) for row in new_rows)


def _place(graph: TosaGraph, rows: Sequence[NpuOp]) -> TosaGraph:
    """Return a graph whose operators have the ids of the rows that are scheduled from them as their origins, and those
    that are fused into a row the id of that row.
    """
    operators = list(graph.operators)
    producers = graph.producers()
    known = [row for row in rows if 0 <= row.operator < len(operators) and operators[row.operator].op == row.tosa_op]
    places: dict[int, NpuOp] = {}
    for row in known:
        places.setdefault(row.operator, row)  # the first of the rows that one operator was split into counts
    first = frozenset(places)
    for row in known:
        for index in _fused_operators(row.operator, producers.get(row.tensor), producers, first):
            places.setdefault(index, row)
    for index, row in places.items():
        location = Location(row.id, "", row.module, Ancestor(row.id, row.id, ""))
        operators[index] = replace(operators[index], location=location)
    return replace(graph, operators=tuple(operators))


def _fused_operators(
    primary: int, last: TosaOperator | None, producers: Mapping[str, TosaOperator], taken: Set[int]
) -> frozenset[int]:
    """Return the indices of the operators behind `primary`, up to `last`, that are on a way between both."""
    if last is None or last.is_constant or last.index <= primary or last.index in taken:
        return frozenset()
    indices: frozenset[int] = frozenset()
    for before in (producers[name] for name in last.inputs if name in producers):
        further = _fused_operators(primary, before, producers, taken)
        if further or before.index == primary:
            indices |= further | {last.index}
    return indices


def _rename(row: NpuOp, origins: Sequence[NpuOp]) -> NpuOp:
    """Return a row with the operators of the model in place of the rows that it was mapped to."""
    return replace(
        row,
        aten_ops=tuple(dict.fromkeys(op for origin in origins for op in origin.aten_ops)),
        sources=tuple(dict.fromkeys(source for origin in origins for source in origin.sources)),
        debug_handles=tuple(sorted({handle for origin in origins for handle in origin.debug_handles})),
    )
