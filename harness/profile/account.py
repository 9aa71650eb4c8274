"""The account of one inference: everything that a profile adds to a record."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from ethos_hil.base.inference_profile import Edge, InferenceProfile
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Op
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.profile.compiled import CompiledDelegate, system_of
from ethos_hil.harness.profile.costs import costs
from ethos_hil.harness.profile.cpu import KERNEL, cpu_rows, row_id
from ethos_hil.harness.profile.dataflow import DataFlow, data_flow
from ethos_hil.harness.profile.memories_behind import memories_behind
from ethos_hil.harness.profile.timeline import timeline
from ethos_hil.harness.targets.base import Target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import DelegateCall, KernelCall, MoveCall, Tensor, ValueList


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
    delegates = {each.instruction: CompiledDelegate.of(artifact, each, npu, mode) for each in artifact.delegates}
    flows = {instruction: data_flow(each, instruction) for instruction, each in delegates.items()}
    slices, timed = timeline(outcome.runs[0], delegates, ops, _names(artifact))
    return InferenceProfile(
        clock_hz=system_of(artifact, npu).core_clock,
        macs_per_cycle=npu.macs,
        timeline_from=timed,
        costs={row: cost for each in delegates.values() for row, cost in costs(each).items()},
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
                    for each in _tensors(plan.values, value):
                        yield from into(each, row_id(at, KERNEL))
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
