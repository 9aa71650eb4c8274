"""A lowered program as text for people: what runs where, and the origin of the NPU's operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ethos_hil.base.wording import count_of
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.formats.pte_model import (
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    Instruction,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Tensor,
)
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.program.placement import CpuCall, group_calls

_MOST_LEFT = 20
"""How many operators on the CPU a summary lists."""
_TOOLS = ("executorch", "ethos-u-vela", "tosa-tools", "torch")


def listing(artifact: Artifact) -> str:
    """Return a text with every method and its instructions, and each delegate with its TOSA program and NPU
    operations.
    """
    return "".join(f"{line}\n".replace(" \n", "\n") for line in _lines(artifact))


def summary(artifact: Artifact) -> list[str]:
    """Return a line for part method: what is delegated, and what stays on the CPU."""
    lines = []
    for part in artifact.methods:
        method = artifact.of(part.name)
        rows = f", {len(method.npu_ops)} NPU operations" if artifact.npu is not None else ""
        kernels = ", ".join(dict.fromkeys(method.cpu_ops)) or "nothing"
        lines.append(f"{part.name}: {count_of(len(part.delegates), 'delegate')}{rows}; on the CPU: {kernels}")
        placed = part.placement
        lines.append(
            f"{part.name}: {count_of(placed.delegated, 'operator')} delegated, {len(placed.on_cpu)} not, with "
            f"{count_of(placed.conversions, 'conversion')} between numbers and integers"
        )
        lines += [f"  {_cpu_line(call, count)}" for call, count in group_calls(placed.on_cpu)[:_MOST_LEFT]]
        if len(group_calls(placed.on_cpu)) > _MOST_LEFT:
            lines.append(f"  and {len(group_calls(placed.on_cpu)) - _MOST_LEFT} more; --json has all of them")
    return lines


def _cpu_line(call: CpuCall, count: int) -> str:
    many = f"{count} x " if count > 1 else ""
    place = f" at {call.place}" if call.place else ""
    return f"on the CPU: {many}{call.operator}{place}: {call.reason}" + (f" ({call.remedy})" if call.remedy else "")


def target(artifact: Artifact) -> str:
    """Return the name of the target that the artifact was lowered for."""
    if artifact.tosa is not None:
        return str(artifact.tosa)
    return f"{artifact.npu}, {artifact.memory_mode}" if artifact.npu is not None else "the CPU"


def _lines(artifact: Artifact) -> Iterator[str]:
    yield f"{artifact.model} for {target(artifact)}"
    yield f"  program: {len(artifact.pte):,} bytes, SHA-256 {artifact.sha256}"
    yield "  made by " + ", ".join(f"{tool} {artifact.versions[tool]}" for tool in _TOOLS if tool in artifact.versions)
    for note in artifact.notes:
        yield f"  note: {note}"
    for method in artifact.methods:
        yield ""
        yield from _method(artifact.of(method.name))


def _method(artifact: Artifact) -> Iterator[str]:
    plan = artifact.plan
    how = artifact.scheme or "not quantised"
    memory = ", ".join(f"{size:,}" for size in plan.planned_sizes) or "0"
    yield f"method {artifact.method} ({how}), planned memory {memory} bytes"
    names = artifact.input_names if len(artifact.input_names) == len(plan.inputs) else [""] * len(plan.inputs)
    for number, (name, index) in enumerate(zip(names, plan.inputs, strict=True)):
        yield f"  input {number}   {_value(plan, index)} {name}"
    for number, index in enumerate(plan.outputs):
        yield f"  output {number}  {_value(plan, index)}"
    for at, instruction in enumerate(plan.instructions):
        yield f"  {at:4}  {_instruction(plan, instruction)}"
    for delegate in artifact.delegates:
        yield from _delegate(delegate)


def _instruction(plan: ExecutionPlan, instruction: Instruction) -> str:
    match instruction:
        case KernelCall():
            outs = [index for index in dict.fromkeys(instruction.args[-2:]) if isinstance(plan.values[index], Tensor)]
            return f"{instruction.operator} -> {', '.join(_value(plan, index) for index in outs)}"
        case DelegateCall():
            return f"delegate {instruction.delegate}: {', '.join(_value(plan, index) for index in instruction.args)}"
        case JumpFalseCall():
            return f"to {instruction.destination} unless value {instruction.condition} is true"
        case MoveCall():
            return f"value {instruction.target} is value {instruction.source}"
        case FreeCall():
            return f"free value {instruction.value}"


def _value(plan: ExecutionPlan, index: int) -> str:
    value = plan.values[index]
    return f"{index} {value}" if isinstance(value, Tensor) else f"{index} {value!r}"


def _delegate(delegate: Delegate) -> Iterator[str]:
    yield ""
    yield f"  delegate {delegate.index}, called by instruction {delegate.instruction}"
    if delegate.vela:
        blob = delegate.blob
        yield (
            f"    command stream {blob.stream_size:,} bytes, weights {len(blob.weights):,} bytes, "
            f"scratch {blob.scratch_size:,} bytes"
        )
    for name, graph in TosaGraph.regions(delegate.tosa).items() if delegate.tosa is not None else ():
        yield f"    TOSA {name}: {_tensors(graph, [tensor.name for tensor in graph.inputs])}"
        constants = {output for operator in graph.operators if operator.is_constant for output in operator.outputs}
        for operator in graph.operators:
            if not operator.is_constant:
                inputs = [value for value in operator.inputs if value not in constants]
                bodies = f" {', '.join(operator.bodies)}" if operator.bodies else ""
                yield (
                    f"      {operator.index:4}  {operator.op}{bodies}({', '.join(inputs)}) -> "
                    f"{_tensors(graph, operator.outputs)}"
                )
    if delegate.npu_ops:
        yield "    NPU"
    for row in delegate.npu_ops:
        aten = ", ".join(name.removeprefix("aten.") for name in row.aten_ops)
        lines = dict.fromkeys((row.source, *row.sources))
        place = " ".join(filter(None, (row.module, *lines)))
        yield f"      {row.id}  {row.npu_op:<16} {row.tosa_op:<16} {row.vela_cycles:>9,} cycles (vela)  {aten}  {place}"


def _tensors(graph: TosaGraph, names: Sequence[str]) -> str:
    described = []
    for name in names:
        tensor = graph.tensors.get(name)
        described.append(name if tensor is None else f"{name} {tensor.dtype.lower()}{list(tensor.shape)}")
    return ", ".join(described)
