"""When what ran: the slices of one inference.

NPU and CPU take turns: while the NPU works, the CPU waits. A kernel of the NPU begins when the target says so; where it
does not, the rows are laid end to end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ethos_hil.base.inference_profile import Slice
from ethos_hil.base.record import JOB, Op
from ethos_hil.harness.link.outcome import OpEvent, Run, StepTime
from ethos_hil.harness.npu.isa.operations import Dma
from ethos_hil.harness.profile.compiled import CompiledDelegate
from ethos_hil.harness.profile.cpu import KERNEL, WAIT, row_id

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
            slices += _modelled(compiled, call.op_events, now) if modelled else _end_to_end(ops, step.instruction, now)
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


def _modelled(compiled: CompiledDelegate, events: Sequence[OpEvent], start: int) -> Iterator[Slice]:
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
