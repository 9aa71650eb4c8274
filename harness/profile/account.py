"""The account of one inference: everything that a profile adds to a record, and when what ran.

NPU and CPU take turns: while the NPU works, the CPU waits. A kernel of the NPU starts when the target says so; where it
does not, the rows are laid end to end.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from ethos_hil.base.inference_profile import KERNEL, WAIT, Edge, InferenceProfile, Slice
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import JOB, Op
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.link.outcome import OpEvent, Outcome, Run, StepTime
from ethos_hil.harness.npu.isa.operations import Dma
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.profile.compiled import CompiledDelegate, costs, memories_behind, system_of
from ethos_hil.harness.profile.cpu import cpu_rows, row_id
from ethos_hil.harness.profile.dataflow import DataFlow, data_flow
from ethos_hil.harness.targets.base import Target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import DelegateCall, KernelCall, MoveCall, Tensor, ValueList

MODELLED, END_TO_END = "modelled", "laid end to end"


def timeline(
    run: Run, delegates: Mapping[int, CompiledDelegate], ops: Sequence[Op], names: Mapping[int, str]
) -> tuple[tuple[Slice, ...], str]:
    """Return the slices of an execution, and whether they are MODELLED or laid END_TO_END.

    Args:
        run: the execution.
        delegates: by the instruction that calls them.
        ops: the rows of the record.
        names: of the kernels, by instruction.
    """
    calls = {call.instruction: call for call in run.delegates}
    modelled = all(_are_operations(delegates[call.instruction], call.op_events) for call in run.delegates)
    steps = run.steps or tuple(StepTime(call.instruction, {}) for call in run.delegates)
    slices: list[Slice] = []
    now = 0
    for step in steps:
        call = calls.get(step.instruction)
        parts = {part: count for part, count in step.parts.items() if count and part != WAIT}
        for part in ("inputs", "clean", "start", KERNEL):
            if part in parts:
                now = _on_cpu(slices, step, part, parts[part], names, now)
        if call is not None:
            compiled = delegates[step.instruction]
            slices += _slices(compiled, call.op_events, now) if modelled else _end_to_end(ops, step.instruction, now)
            now += call.cycles
        for part in ("end", "invalidate", "outputs"):
            if part in parts:
                now = _on_cpu(slices, step, part, parts[part], names, now)
    return tuple(slices), MODELLED if modelled else END_TO_END


def _on_cpu(slices: list[Slice], step: StepTime, part: str, count: int, names: Mapping[int, str], now: int) -> int:
    name = names[step.instruction] if part == KERNEL else f"{names[step.instruction]}: {part}"
    slices.append(Slice("cpu", name, now, now + count, row_id(step.instruction, part)))
    return now + count


def _are_operations(compiled: CompiledDelegate, events: Sequence[OpEvent]) -> bool:
    """Return whether each event is an operation; a trace has places between them as well."""
    return bool(events) and {event.offset for event in events} <= {op.offset for op in compiled.program.ops}


def _slices(compiled: CompiledDelegate, events: Sequence[OpEvent], start: int) -> Iterator[Slice]:
    operations = {op.offset: (index, op) for index, op in compiled.operations()}
    for event in events:
        index, op = operations[event.offset]
        row = compiled.rows[index]
        cost = compiled.cost(op)
        read, written = ((math.ceil(bytes_[0]), math.ceil(bytes_[1])) for bytes_ in (cost.read, cost.moved))
        lane, name = ("dma", f"DMA for {row.npu_op}") if isinstance(op, Dma) else ("npu", row.npu_op)
        mac = math.ceil(cost.engine.active)
        yield Slice(lane, name, start + event.begin, start + event.end, row.id, mac, read, written)


def _end_to_end(ops: Sequence[Op], instruction: int, start: int) -> Iterator[Slice]:
    for op in ops:
        if op.instruction == instruction and op.cycles:
            name = JOB if op.id == JOB else op.npu_op
            yield Slice("npu", name, start, start + op.cycles, f"{JOB}{instruction}" if op.id == JOB else op.id)
            start += op.cycles


def inference_profile(
    artifact: Artifact, board: Target, outcome: Outcome, ops: Sequence[Op], mode: DeviceMemoryMode
) -> InferenceProfile:
    """Return the account of the first execution; cycles and counts of rows are medians.

    Args:
        artifact: that ran.
        board: where it ran.
        outcome: of the run.
        ops: the rows of its record.
        mode: where the NPU's memories were.

    Raises:
        Fault: a command stream cannot be decoded.
    """
    npu = EthosU.parse(board.npu)
    delegates = {call.instruction: CompiledDelegate.of(artifact, call, npu, mode) for call in artifact.delegates}
    flows = {instruction: data_flow(call, instruction) for instruction, call in delegates.items()}
    slices, timed = timeline(outcome.runs[0], delegates, ops, _names(artifact))
    return InferenceProfile(
        clock_hz=system_of(artifact, npu).core_clock,
        macs_per_cycle=npu.macs,
        timeline_from=timed,
        costs={row: cost for call in delegates.values() for row, cost in costs(call).items()},
        cpu=cpu_rows(artifact, board, outcome.runs),
        timeline=slices,
        buffers=tuple(buffer for flow in flows.values() for buffer in flow.buffers),
        edges=tuple(_edges(artifact, delegates, flows)),
        memories=memories_behind(artifact, tuple(delegates.values())),
        timing_model=timing_model_id(),
    )


def _names(artifact: Artifact) -> dict[int, str]:
    return {
        at: call.operator if isinstance(call, KernelCall) else f"delegate {call.delegate}"
        for at, call in enumerate(artifact.plan.instructions)
        if isinstance(call, KernelCall | DelegateCall)
    }


def _edges(
    artifact: Artifact, delegates: Mapping[int, CompiledDelegate], flows: Mapping[int, DataFlow]
) -> Iterator[Edge]:
    """Yield the edges of the method: between kernels, delegates, inputs and outputs, and inside delegates."""
    plan = artifact.plan
    writers: dict[int, list[tuple[str, int]]] = {
        value: [(f"input {number}", _size(plan.values[value]))] for number, value in enumerate(plan.inputs)
    }

    def into(value: int, target: str) -> Iterator[Edge]:
        for writer, size in writers.get(value, ()):
            yield Edge(writer, target, size)

    for at, call in enumerate(plan.instructions):
        if isinstance(call, MoveCall):
            writers[call.target] = writers.get(call.source, [])
        elif isinstance(call, KernelCall):
            *inputs, output = call.args
            for value in dict.fromkeys(inputs):
                if value != output:
                    for tensor in _tensors(plan.values, value):
                        yield from into(tensor, row_id(at, KERNEL))
            writers[output] = [(row_id(at, KERNEL), _size(plan.values[output]))]
        elif isinstance(call, DelegateCall) and at in flows:
            rows, arity = delegates[at].rows, len(delegates[at].delegate.blob.inputs)
            for value in call.args[arity:]:
                writers[value] = []
            for link in flows[at].links:
                target = rows[link.target].id if link.target < len(rows) else ""
                if link.source < 0 and target:
                    for edge in into(call.args[-1 - link.source], target):
                        yield dataclasses.replace(edge, size=link.size)
                elif link.source >= 0 and target:
                    yield Edge(rows[link.source].id, target, link.size)
                elif link.source >= 0:
                    value = call.args[arity + link.target - len(rows)]
                    writers[value].append((rows[link.source].id, link.size))
    for number, value in enumerate(plan.outputs):
        yield from into(value, f"output {number}")


def _tensors(values: Sequence[object], index: int) -> tuple[int, ...]:
    value = values[index] if index >= 0 else None
    if isinstance(value, ValueList) and "tensor" in value.kind:
        return tuple(int(item) for item in value.items if item >= 0)
    return (index,) if isinstance(value, Tensor) else ()


def _size(value: object) -> int:
    return value.nbytes if isinstance(value, Tensor) else 0
